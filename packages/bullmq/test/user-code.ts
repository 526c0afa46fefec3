/** Digest of the code of all servers and workers of a test. */
export const code = 'code-1'
