import { runWorker } from '@osmosis/server/child'

import { takeOrder } from '../../command/process.ts'
import { loadGrading, type GraderOrder } from './load-grader.ts'

// Started by `GraderProcess`: a grader cannot harm the command, and each start loads its sources again.
await runWorker(async () => loadGrading(takeOrder() as GraderOrder))
