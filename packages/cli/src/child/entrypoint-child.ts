import { runWorker } from '@osmosis/server/child'

import { loadForInspection } from './inspected-entrypoint.ts'

// Started by `inspectEntrypoint` and `datasetFit`.
await runWorker(async () => loadForInspection(JSON.parse(process.argv[2] ?? '""') as string))
