import type { Setting } from '../request/settings.ts'

/** The inputs of matrix/action.yml, which is generated from this table. */
export const MATRIX_SETTINGS = [
  {
    name: 'minors',
    description:
      'Kubernetes minors to build, each at its newest patch: a list (1.31, 1.33), ranges (1.31-1.34), or both; an exact version (v1.33.13) stands for itself. Empty: see newest.',
    default: '',
  },
  {
    name: 'newest',
    description: 'Without minors: how many of the newest minors to build.',
    default: '3',
  },
  {
    name: 'arch',
    description: 'Architectures to build for: amd64, arm64, or both, separated by commas or lines.',
    default: 'amd64',
  },
  {
    name: 'released',
    description:
      'What is there already and not built again, one a line: names that hold the version (v1.33.4, setup-v1.33.4-aarch64.iso), or the https URL of a repository whose tags are such names. A name with an architecture stands for that one, without one for all.',
    default: '',
  },
  {
    name: 'include-prereleases',
    description:
      'true: a minor without a release yet is built at its newest pre-release, with the autoscaler of the nearest lower minor.',
    default: 'false',
  },
  {
    name: 'mirrors',
    description:
      'Where to fetch from instead, a line each: <https URL prefix> <replacement URL>. As in the action that builds.',
    default: '',
  },
] as const satisfies readonly Setting[]

export type MatrixSettingName = (typeof MATRIX_SETTINGS)[number]['name']

/** What matrix/action.yml hands to later steps. */
export const MATRIX_OUTPUTS = [
  {
    name: 'matrix',
    description:
      'For strategy.matrix with fromJSON: {"include": [{"kubernetes-version", "arch", "autoscaler-version"}]}; the last is empty where the build finds it itself.',
  },
  { name: 'empty', description: 'true when there is nothing to build: a matrix without jobs is an error.' },
  { name: 'skipped', description: 'JSON list of what is not built: version (or minor), arch, reason.' },
] as const

export type MatrixOutputName = (typeof MATRIX_OUTPUTS)[number]['name']
