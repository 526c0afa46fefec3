import { errorMessage } from '@osmosis/core'

import { loadEntrypoint } from '../inputs/load-entrypoint.ts'
import { metadataCheckOf } from '../serve/served-workflow.ts'
import type { LoadedMessage } from './dataset-fit.ts'
import { answerMetadataChecks } from './metadata-channel.ts'

// Started by `datasetFit`, in a process of its own: what an entrypoint does when it is imported is
// its own business, and it may never end.
const [entrypoint = ''] = process.argv.slice(2)
process.once('disconnect', () => process.exit())

function report(loaded: LoadedMessage): void {
  process.send?.(loaded)
}

try {
  const loaded = await loadEntrypoint(entrypoint)
  const config = loaded.kind === 'workflow' ? loaded.entrypoint.workflowConfig : undefined
  answerMetadataChecks((rows) => metadataCheckOf(config, rows))
  report({ kind: loaded.kind, hasSchema: config?.metadata !== undefined })
} catch (error) {
  report({ kind: 'failed', message: errorMessage(error) })
}
