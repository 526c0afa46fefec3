import { OsmosisError } from '@osmosis/core'
import { serve, type ServerShell } from '@osmosis/server'

import { answerMetadataChecks, announceListening } from './server-channel.ts'
import { serverEnd } from './server-end.ts'
import type { ServeFlags } from './serve.ts'
import { followKeyFile } from './server-keys.ts'
import type { ServedWorkflow, WorkflowFacts } from './served-workflow.ts'
import { endSignal, printOut } from '../command/surroundings.ts'

/** How the server of a workflow is reached, and what is said of it. */
export interface WorkflowPort {
  readonly flags: ServeFlags
  /** Counts when no flag names one. */
  readonly port: number
  /** What is printed between the workflow and the address. Default: nothing. */
  readonly lines?: readonly string[]
}

/** Opens the port of a server of a workflow, and says what is served where. */
export async function openWorkflowPort(
  server: ServerShell,
  { facts, check, close }: Pick<ServedWorkflow, 'facts' | 'check' | 'close'>,
  { flags, port, lines = [] }: WorkflowPort,
): Promise<void> {
  followKeyFile(server, flags.apiKeyFile)
  const listening = await serve(server, {
    port: flags.port ?? port,
    host: flags.host,
    allowUnauthenticated: !flags.auth,
    ...serverEnd(),
  })
  const closed = listening.closed.then(close)
  closed.catch(() => {})
  const key = server.requiresKey ? 'with a bearer key' : 'open, no key asked for'
  const said = [
    `Serving ${workflowText(facts)}`,
    ...lines,
    `Listening on ${listening.url} (${key})`,
  ]
  printOut(`${said.join('\n')}\n`)
  answerMetadataChecks(check)
  const { hasSchema, isConfigured, grader, groupMinSize } = facts
  const hasGrader = grader !== null
  const served = { hasSchema, isConfigured, hasGrader, groupMinSize }
  announceListening(listening, { kind: 'workflow', ...served })
  if (endSignal() !== undefined) await closed
}

/** What is run, for people. */
export function workflowText({ workflow, file, grader, groupMinSize }: WorkflowFacts): string {
  const how = groupMinSize === null ? '' : ', which grades the attempts at a row together'
  return `${workflow} of ${file} (${grader ?? 'no grader: rollouts get no reward'}${how})`
}

/** @throws OsmosisError with code `invalid_config` for flags that are for agent loops */
export function assertWorkflowFlags({ register, log, validate }: ServeFlags, file: string): void {
  const foreign = [
    register && '--register',
    log !== undefined && '--log',
    !validate && '--no-validate',
  ]
  const [flag] = foreign.filter((name) => typeof name === 'string')
  if (flag === undefined) return
  throw new OsmosisError(
    'invalid_config',
    `${flag} is for agent loops, and ${file} exports an AgentWorkflow.`,
  )
}
