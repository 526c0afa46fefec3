import { describe } from 'vitest'

import { endsServer, runOutcomeTable } from './run-outcome-table.ts'

// Outcomes are decided in one process.
runOutcomeTable('LocalBackend', (row) => !endsServer(row) && row.entrypoint === undefined)

const samples = ['graded', 'graded, with two samples', 'grader threw']
runOutcomeTable('WorkerPoolBackend', ({ situation }) => samples.includes(situation))

describe('with servers that exit, and with workers', { tags: 'slow' }, () => {
  runOutcomeTable('LocalBackend', (row) => endsServer(row) || row.entrypoint !== undefined)
  runOutcomeTable('WorkerPoolBackend')
})
