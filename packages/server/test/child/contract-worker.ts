import { contractEntrypoints, type ContractEntrypoint } from '@osmosis/testing/kit/backend-contract'
import { runWorker } from '@osmosis/server/child'

const [entrypoint] = process.argv.slice(2) as [ContractEntrypoint]
await runWorker(async () => ({ backend: contractEntrypoints[entrypoint] }))
