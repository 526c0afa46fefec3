import { runWorker } from '@osmosis/server/child'

import { loadForInspection } from './inspected-entrypoint.ts'
import { takeOrder } from '../command/process.ts'

// Started by `inspectEntrypoint` and `datasetFit`.
await runWorker(async () => loadForInspection(takeOrder() as string))
