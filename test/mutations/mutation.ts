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

/** Makes mutations of a file: what goes wrong, the text, and what it becomes. Their names begin with the area. */
export function mutationsNamed(
  area: string,
): (
  file: string,
  tests: readonly string[],
  changes: readonly (readonly [name: string, from: string, to: string])[],
) => Mutation[] {
  return (file, tests, changes) =>
    changes.map(([name, from, to]) => ({ name: `${area}: ${name}`, file, from, to, tests }))
}
