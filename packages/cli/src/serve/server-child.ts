import { runWorker } from '@osmosis/server/child'

import { environment } from '../command/command-context.ts'
import { breakUpCommands } from '../command/github-commands.ts'
import { takeOrder } from '../command/process.ts'
import { loadServer, type ServerOrder } from './server-process.ts'

// Started by `startServerProcess`.
breakUpCommands(environment())
await runWorker(async () => loadServer(takeOrder() as ServerOrder))
