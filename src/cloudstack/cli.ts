import { type Command, Option } from 'commander'
import { parseCloudStackRequest } from './request.ts'
import { type CloudStackContext, type CloudStackReport, runCloudStack } from './run.ts'
import {
  type CloudStackSettingName,
  type CloudStackValues,
  cloudStackSettings,
  type Part,
} from './settings.ts'

/** What the commands get from the program that they are part of. */
export interface CloudStackCommandContext extends CloudStackContext {
  /** Environment variables: the keys come from there, and the endpoint may. */
  readonly env: Readonly<Record<string, string | undefined>>
  /** Writes to standard output. */
  print(text: string): void
}

const DESCRIPTIONS: Readonly<Record<Part, string>> = {
  register: 'register an ISO as a Kubernetes version in CloudStack and wait until it is there',
  upgrade: 'upgrade clusters to a registered Kubernetes version and redeploy their autoscaler',
}

/** Adds the commands `register` and `upgrade`. Each prints its summary, then throws when it was no success. */
export function addCloudStackCommands(program: Command, context: CloudStackCommandContext): void {
  for (const part of ['register', 'upgrade'] as const) {
    const settings = cloudStackSettings(part)
    const command = program.command(part).description(DESCRIPTIONS[part])
    for (const { name, description, default: byDefault, secret, variable } of settings) {
      if (secret) continue
      const shown = [
        ...(byDefault === '' ? [] : [`default: ${byDefault}`]),
        ...(variable === undefined ? [] : [`else ${variable}`]),
      ]
      const suffix = shown.length === 0 ? '' : ` (${shown.join('; ')})`
      const isSwitch = byDefault === 'false'
      const option = new Option(`--${name} ${isSwitch ? '[value]' : '<value>'}`, `${description}${suffix}`)
      // `--dry-run` alone means true.
      command.addOption(isSwitch ? option.preset('true') : option)
    }
    const secrets = settings.filter(({ secret }) => secret)
    command.addHelpText(
      'after',
      `\nEnvironment:\n${secrets.map(({ variable, description }) => `  ${variable}  ${description}`).join('\n')}`,
    )
    command.action(async (_options: unknown, self: Command) => {
      const values = valuesOf(self, part, context.env)
      const report = await runCloudStack(parseCloudStackRequest(values, part, context), context)
      context.print(report.summary)
      throwFailure(report)
    })
  }
}

function valuesOf(command: Command, part: Part, env: CloudStackCommandContext['env']): CloudStackValues {
  const values: Partial<Record<CloudStackSettingName, string>> = {}
  for (const { name, variable } of cloudStackSettings(part)) {
    const option = command.options.find(({ long }) => long === `--${name}`)
    const given: unknown = option === undefined ? undefined : command.getOptionValue(option.attributeName())
    const value = typeof given === 'string' ? given : variable === undefined ? undefined : env[variable]
    if (value !== undefined) values[name] = value
  }
  return values
}

function throwFailure({ failure }: CloudStackReport): void {
  if (failure !== undefined) throw failure
}
