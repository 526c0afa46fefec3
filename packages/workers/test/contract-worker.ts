import { contractEntrypoints, type ContractEntrypoint } from '@osmosis/testing'
import { runWorker } from '@osmosis/workers'

const [entrypoint] = process.argv.slice(2) as [ContractEntrypoint]
await runWorker(async () => ({ backend: contractEntrypoints[entrypoint] }))
