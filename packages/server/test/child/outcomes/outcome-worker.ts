import { runWorker } from '@osmosis/server/child'

import {
  outcomeEntrypoints,
  type OutcomeEntrypoint,
} from '../../../../../test/kit/outcomes/outcome-entrypoint.ts'

const [entrypoint, artifactRoot] = process.argv.slice(2) as [OutcomeEntrypoint, string]
await runWorker(async () => ({ backend: { ...outcomeEntrypoints[entrypoint], artifactRoot } }))
