import { hostname } from 'node:os'

import {
  keepLogin,
  loginByDevice,
  PlatformError,
  prepareStore,
  verifyLogin,
  type DeviceCode,
  type Identity,
} from '@osmosis/platform'

import { openBrowser } from '../open-browser.ts'
import type { LoginFlags } from './auth-commands.ts'
import type { PlatformSession } from './platform-session.ts'
import { isInteractive } from '../surroundings.ts'

/** Logs in, and keeps the login for the platform in place of the one there was. */
export async function loginCommand(session: PlatformSession, flags: LoginFlags): Promise<void> {
  const { output, settings, logins: store } = session
  const { url, environmentToken } = settings
  output.hide(flags.token)
  if (environmentToken !== undefined && flags.token === undefined) {
    throw new PlatformError(
      'CONFLICT',
      'OSMOSIS_TOKEN is set and would be used in place of the login: unset it, or pass --token.',
    )
  }
  if (output.json && flags.token === undefined) {
    throw new PlatformError('INTERACTIVE_REQUIRED', 'Logging in with --json needs --token.', {
      details: { prompt: 'Log in with a browser', summary: '', notes: [], warnings: [] },
    })
  }
  const warn = ({ code, message }: { code: string; message: string }): void =>
    output.warn(code, message)
  const earlier = await prepareStore(store, url, warn)
  const login = await obtain(session, flags.token)
  output.hide(login.token, earlier?.token)
  const kept = await keepLogin(
    { ...login, isNew: flags.token === undefined },
    { store, url, earlier, clientFor: (token) => session.client(token), warn },
  )
  const { email, name } = login.user
  output.operation({
    status: 'success',
    operation: 'auth.login',
    resource: {
      email: email ?? null,
      name: name ?? null,
      expires_at: login.expiresAt,
      platform_url: url,
      workspace: null,
      source: flags.token === undefined ? 'device' : 'token',
      verified: true,
      saved: true,
      token_store: kept,
    },
    message: `Logged in to ${url} as ${String(email ?? name)}, until ${login.expiresAt}. The token is in ${kept === 'file' ? store.file.path : 'the keyring of the system'}.`,
  })
}

async function obtain(
  session: PlatformSession,
  given: string | undefined,
): Promise<Identity & { readonly token: string }> {
  const token = given?.trim()
  if (token === undefined) {
    return loginByDevice(session.client(), {
      deviceName: hostname(),
      signal: session.signal,
      onCode: (code) => showCode(session, code),
    })
  }
  if (!/^[\x21-\x7E]+$/.test(token)) {
    throw new PlatformError(
      'VALIDATION',
      'A login token is text of visible ASCII characters, without spaces or line breaks.',
    )
  }
  return { ...(await verifyLogin(session.client(token))), token }
}

function showCode(session: PlatformSession, { userCode, url, completeUrl }: DeviceCode): void {
  session.output.note(`Open ${url} and enter the code ${userCode}`)
  if (isInteractive() && /^https?:\/\//.test(completeUrl)) openBrowser(completeUrl)
}
