// A worker of the workers benchmark.
import { runWorker } from '@osmosis/server/child'

import { workload } from './worker-workload.ts'

await runWorker(async () => ({ backend: workload }))
