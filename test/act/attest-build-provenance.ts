/** Stands in for actions/attest-build-provenance: it fails, as on a private repository. */

throw new Error('nothing here can attest')
