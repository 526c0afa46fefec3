import type { RowCheck } from '@osmosis/eval'
import { runWorker } from '@osmosis/server/child'

import { environment } from '../command/command-context.ts'
import { breakUpCommands } from '../command/github-commands.ts'
import { takeOrder } from '../command/process.ts'
import { invalid } from '../command/wrong-use.ts'
import { loadEntrypoint } from '../inputs/load-entrypoint.ts'
import { backendOptions, factsOf, rowCheckOf, type WorkerArguments } from './served-workflow.ts'

// Started by `workflowInWorkers`, once for each worker.
breakUpCommands(environment())
const { spec, ...options } = takeOrder() as WorkerArguments

await runWorker(async () => {
  const loaded = await loadEntrypoint(spec)
  if (loaded.kind === 'agent-loop') {
    throw invalid(
      `--workers is for workflows, and ${loaded.file} exports an agent loop: start several servers of it instead, each on its own port.`,
    )
  }
  const { entrypoint, file } = loaded
  const configured = backendOptions(entrypoint, options)
  return {
    backend: configured,
    facts: factsOf(configured, file),
    answer: async (rows) => rowCheckOf(entrypoint)(rows as Parameters<RowCheck>[0]),
  }
})
