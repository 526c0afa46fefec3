/** Something that keeps a scaffold from being made, and what to do about it. For people. */
export class ScaffoldError extends Error {
  override readonly name = 'ScaffoldError'
}
