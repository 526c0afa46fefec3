/** Digest of the code of all fronts and workers of a test. */
export const code = 'code-1'
