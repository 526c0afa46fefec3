// @module-tag slow
import { endsServer, runOutcomeTable } from './run-outcome-table.ts'

runOutcomeTable('LocalBackend', (row) => endsServer(row) || row.entrypoint !== undefined)
runOutcomeTable('WorkerPoolBackend')
