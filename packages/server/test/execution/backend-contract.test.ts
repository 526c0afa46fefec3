import { LocalBackend } from '@osmosis/server/execution'

import {
  contractEntrypoints,
  runBackendContract,
} from '../../../../test/kit/backend-contract/index.ts'

runBackendContract('LocalBackend', {
  open: async (entrypoint) => new LocalBackend(contractEntrypoints[entrypoint]),
})
