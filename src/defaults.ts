/**
 * The versions that a build takes when nobody asks for others: the only place where they stand. Add-ons whose
 * version follows Kubernetes (autoscaler, crictl) or is always the newest (CNI plugins) are not here.
 */
export const DEFAULTS = {
  /** The CloudStack release whose node scripts the ISO has to serve. */
  cloudstack: '4.22',
  ccm: '1.2.0',
  csi: '3.0.0',
  calico: '3.32.1',
  flannel: '0.28.9',
  kubernetesDashboard: '2.7.0',
  headlamp: '0.45.0',
  /** Fetched when the machine has no containerd. */
  containerd: '2.2.9',
} as const
