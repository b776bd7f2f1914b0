import { Failure } from '../errors.ts'

/**
 * Turns upstream's kubelet.service or 10-kubeadm.conf into what a node needs: its programs are in /opt/bin, since
 * /usr may be read-only there.
 * @throws Failure when the text is no systemd unit that starts kubelet
 */
export function nodeUnit(text: string, name: string, url: string): string {
  const isUnit = /^\[Service\]\s*$/m.test(text) && /^ExecStart=.*\/usr\/bin\/kubelet\b/m.test(text)
  if (!isUnit) {
    throw new Failure(
      `${url} is no ${name}: ${text.trim() === '' ? 'it is empty' : `it starts with ${JSON.stringify(text.slice(0, 60))}`}, without [Service] and an ExecStart of /usr/bin/kubelet`,
      'Open that URL: it has moved, or a mirror or proxy answers with a page of its own (input mirrors).',
    )
  }
  return text.replaceAll('/usr/bin', '/opt/bin')
}
