import { isIPv6 } from 'node:net'
import path from 'node:path'

import {
  checkRegistration,
  createApp,
  type AgentLoopApp,
  type Registration,
  type RegistrationOptions,
} from '@osmosis/agent-loop'
import { errorMessage } from '@osmosis/core'
import type { RowCheck } from '@osmosis/eval'
import { readServerEnvironment } from '@osmosis/server'

import type { EntrypointFacts, ServedEntrypoint } from '../child/served-workflow.ts'
import { environment, displayPath, printOut } from '../command/command-context.ts'
import { checkAgentLoop, type LoadedAgentLoop } from '../inputs/load-entrypoint.ts'
import { acceptedKeys, commandLogger, openPort } from './listen.ts'
import { assertServable, type ServePlan } from './serve-plan.ts'

const defaultPort = 9000

const loopFacts: EntrypointFacts = {
  kind: 'agent-loop',
  hasSchema: false,
  isConfigured: false,
  // Each request limits its turns.
  limitsCalls: true,
  // A loop sets its own reward.
  hasGrader: true,
  groupMinSize: null,
}

/** Loops declare no schema. */
const takesAll: RowCheck = async (rows) => rows.map(() => [])

/** Serves an agent loop until a signal ends the process. */
export async function serveAgentLoop(
  plan: ServePlan,
  { loop, file }: LoadedAgentLoop,
): Promise<ServedEntrypoint> {
  const settings = readServerEnvironment(environment(), defaultPort)
  const keys = acceptedKeys(plan.keys, settings.apiKey)
  assertServable(plan, { ...loopFacts, file }, keys !== undefined)
  const registration = plan.registers ? await planRegistration(plan) : undefined
  await checkAgentLoop(loop)
  // A folder for each start, named by its time.
  const traces =
    plan.traces === undefined
      ? undefined
      : path.join(displayPath(plan.traces), String(Math.floor(Date.now() / 1000)))
  const app = createApp(loop, {
    apiKey: keys,
    debugDir: traces,
    logger: commandLogger(plan.logLevel),
    outboxDir: plan.outbox && displayPath(plan.outbox),
    drainSeconds: plan.drainSeconds,
    egress: plan.egress,
    ownership: settings.ownership,
  })
  const lines = [
    `Serving the agent loop ${loop.name} of ${file}`,
    ...(traces === undefined ? [] : [`Writing traces to ${traces}`]),
  ]
  const ready = { server: app, port: settings.port, lines, facts: loopFacts, check: takesAll }
  const { port, ...served } = await openPort(
    plan,
    async () => {},
    async () => ready,
  )
  if (registration !== undefined) {
    announceRegistration(app, { ...registration, port: plan.publicHost?.port ?? port })
  }
  return served
}

/**
 * Prepares `--register`, so that a mistake is reported before anything is served.
 *
 * @throws OsmosisError with code `invalid_config` or `unauthorized`
 */
async function planRegistration({
  publicHost,
  host: own,
}: ServePlan): Promise<Pick<RegistrationOptions, 'host' | 'token' | 'platformUrl'>> {
  const { platformLogin } = await import('../platform/session/platform-session.ts')
  const { url: platformUrl, token } = await platformLogin()
  const planned = { host: publicHost?.host ?? own, platformUrl, token }
  checkRegistration(planned)
  return planned
}

/**
 * Registers a listening server in the background, and prints the result. The server continues in any case.
 */
function announceRegistration(app: AgentLoopApp, options: RegistrationOptions): void {
  const { host, port } = options
  const place = `${isIPv6(host) ? `[${host}]` : host}:${port}`
  app.register(options).then(
    (registration) => printOut(`${registered(registration, place)}\n`),
    (error: unknown) => printOut(`Could not register with the platform: ${errorMessage(error)}\n`),
  )
}

function registered({ id, status, error }: Registration, place: string): string {
  const said = `Registered with the platform${id === null ? '' : ` as ${id}`}, at ${place}`
  return error === null
    ? said
    : `${said}, but the platform's health check failed (${status}): ${error}`
}
