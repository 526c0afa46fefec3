/** A change of one line that some test has to notice. */
export interface Mutation {
  /** What goes wrong with it. */
  readonly name: string
  readonly file: string
  /** Occurs once in the file. */
  readonly from: string
  readonly to: string
  /** Tests of the package that owns the code: paths for vitest. */
  readonly tests: readonly string[]
  /** Whether the truth test has to notice it as well, over the wire. */
  readonly overTheWire?: true
}
