/** Stands in for actions/attest-build-provenance: act fetches it, but must not run it where CKS_ISO_ATTEST is false. */

throw new Error('nothing here can attest')
