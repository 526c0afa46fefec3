import { endsServer, runOutcomeTable } from './run-outcome-table.ts'

// Outcomes are decided in one process. The slow tests test all of them with workers, and with servers that
// exit.
runOutcomeTable('LocalBackend', (row) => !endsServer(row) && row.entrypoint === undefined)

const samples = ['graded', 'graded, with two samples', 'grader threw']
runOutcomeTable('WorkerPoolBackend', ({ situation }) => samples.includes(situation))
