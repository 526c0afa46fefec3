import type { Mutation } from './mutation.ts'

const parquet = {
  file: 'packages/eval/src/dataset/parquet-rows.ts',
  tests: ['packages/eval/test/dataset/parquet-keys.test.ts'],
}

/** Rows that no rollout can earn a right reward for. */
export const rowMutations: readonly Mutation[] = [
  {
    name: 'rows: the last value of a key that a map has twice is read',
    from: 'if (map.has(name)) throw keyTwice(name)',
    to: '',
    ...parquet,
  },
  {
    name: 'rows: the last of two fields with one name is read',
    from: 'if (twice !== undefined) throw',
    to: 'if (twice === undefined) throw',
    ...parquet,
  },
  {
    name: 'rows: JSON of a Parquet file may have a key twice',
    from: 'return error instanceof DataProblem ? error : text',
    to: 'return text',
    ...parquet,
  },
  {
    name: 'rows: a rollout runs whose label cannot be graded',
    file: 'packages/core/src/workflow/metadata-schema.ts',
    from: 'row.grade ? graderConfig?.label : undefined',
    to: 'undefined',
    tests: ['packages/core/test/workflow/metadata-schema.test.ts'],
  },
  {
    name: 'rows: a training does not check its labels',
    file: 'packages/cli/src/train/run/run-training.ts',
    from: 'await assertRowsFit(subject.datasetFile, options.rows, rowCheck)',
    to: '',
    tests: ['packages/cli/test/typed-rows.test.ts'],
  },
  {
    name: 'rows: a training does not check held-out labels',
    file: 'packages/cli/src/train/run/run-training.ts',
    from: 'await assertRowsFit(heldOutFile, options.heldOut, rowCheck)',
    to: '',
    tests: ['packages/cli/test/typed-rows.test.ts'],
  },
  {
    name: 'rows: a row of a trainer with a prompt alone is graded',
    file: 'packages/server/src/run/trainer-row.ts',
    from: 'metadata: hasMetadata ?',
    to: 'metadata: true ?',
    tests: ['packages/server/test/run.test.ts'],
  },
]
