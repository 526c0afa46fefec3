import { runWorker } from '@osmosis/server/child'

import { outcomeEntrypoints, type OutcomeEntrypoint } from '@osmosis/testing/kit/outcome-entrypoint'

const [entrypoint, artifactRoot] = process.argv.slice(2) as [OutcomeEntrypoint, string]
await runWorker(async () => ({ backend: { ...outcomeEntrypoints[entrypoint], artifactRoot } }))
