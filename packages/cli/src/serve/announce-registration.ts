import { isIPv6 } from 'node:net'

import type { AgentLoopApp, Registration, RegistrationOptions } from '@osmosis/agent-loop'
import { errorMessage } from '@osmosis/core'

/**
 * Registers a server that listens, in the background, and prints what came of it. Whatever that
 * is, the server goes on.
 */
export function announceRegistration(app: AgentLoopApp, options: RegistrationOptions): void {
  const { host, port } = options
  const place = `${isIPv6(host) ? `[${host}]` : host}:${port}`
  app.register(options).then(
    (registration) => process.stdout.write(`${registered(registration, place)}\n`),
    (error: unknown) =>
      process.stdout.write(`Could not register with the platform: ${errorMessage(error)}\n`),
  )
}

function registered({ id, status, error }: Registration, place: string): string {
  const said = `Registered with the platform${id === null ? '' : ` as ${id}`}, at ${place}`
  return error === null
    ? said
    : `${said}, but the platform's health check failed (${status}): ${error}`
}
