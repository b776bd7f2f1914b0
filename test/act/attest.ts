/** Stands in for actions/attest. */

throw new Error('nothing here can attest')
