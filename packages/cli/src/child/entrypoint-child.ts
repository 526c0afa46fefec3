import { runWorker } from '@osmosis/server/child'

import { takeOrder } from '../command/process.ts'
import { loadForInspection } from './inspected-entrypoint.ts'

// Started by `inspectEntrypoint` and `datasetFit`.
await runWorker(async () => loadForInspection(takeOrder() as string))
