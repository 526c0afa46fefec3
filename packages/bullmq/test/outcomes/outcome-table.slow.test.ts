import { rowsOfQueue, testOutcomes } from './queue-outcomes.ts'

testOutcomes(rowsOfQueue)
