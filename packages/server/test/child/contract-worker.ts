import { runWorker } from '@osmosis/server/child'

import {
  contractEntrypoints,
  type ContractEntrypoint,
} from '../../../../test/kit/backend-contract/contract-entrypoints.ts'

const [entrypoint] = process.argv.slice(2) as [ContractEntrypoint]
await runWorker(async () => ({ backend: contractEntrypoints[entrypoint] }))
