import { endsServer, runOutcomeTable } from './run-outcome-table.ts'

// Outcomes are decided in one process. That workers change none of them, and what becomes of servers that
// end, is tested in full among the slow tests.
runOutcomeTable('LocalBackend', (row) => !endsServer(row) && row.entrypoint === undefined)

const samples = ['graded', 'graded, with two samples', 'grader threw']
runOutcomeTable('WorkerPoolBackend', ({ situation }) => samples.includes(situation))
