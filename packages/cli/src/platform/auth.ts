import { hostname } from 'node:os'

import type { Command } from '@commander-js/extra-typings'
import type { Identity, LoginWarning, Scope } from '@osmosis/platform'

import { example, groups, type FlagsOf } from '../command/flags.ts'
import { openBrowser } from '../command/process.ts'
import { isInteractive } from '../command/command-context.ts'
import { onPlatform, platformCommand, type ProgramSettings } from './platform-flags.ts'
import type { PlatformSession } from './platform-session.ts'

function declareLogin(auth: Command) {
  return platformCommand(auth, 'login')
    .description('log in with a browser, or with a token')
    .optionsGroup(groups.access)
    .option('--token <token>', 'a login token of the platform')
    .addHelpText('after', example('osmosis platform login'))
}

function declareLogout(auth: Command) {
  return platformCommand(auth, 'logout')
    .description('log out and revoke the token')
    .optionsGroup(groups.confirmation)
    .option('-y, --yes', 'do not ask for confirmation')
    .addHelpText('after', example('osmosis platform logout --yes'))
}

/** Adds `login`, `logout` and `whoami`. */
export function addLoginCommands(auth: Command, settings: ProgramSettings): void {
  onPlatform(declareLogin(auth), settings, logIn)
  onPlatform(declareLogout(auth), settings, logOut)
  const whoami = platformCommand(auth, 'whoami')
    .description('show who is logged in')
    .addHelpText('after', example('osmosis platform whoami'))
  onPlatform(whoami, settings, whoAmI)
}

/** Logs in, and replaces the stored login for the platform. */
async function logIn(session: PlatformSession, flags: FlagsOf<typeof declareLogin>): Promise<void> {
  const { keepLogin, PlatformError, prepareStore } = await import('@osmosis/platform')
  const { output, settings, logins: store } = session
  const { url, environmentToken } = settings
  output.hide(flags.token)
  if (environmentToken !== undefined && flags.token === undefined) {
    throw new PlatformError(
      'CONFLICT',
      'OSMOSIS_TOKEN is set and would override the login: unset it, or pass --token.',
    )
  }
  if (output.json && flags.token === undefined) {
    throw new PlatformError('INTERACTIVE_REQUIRED', 'Logging in with --json needs --token.', {
      details: { prompt: 'Log in with a browser', summary: '', notes: [], warnings: [] },
    })
  }
  const warn = ({ code, message }: LoginWarning): void => output.warn(code, message)
  const earlier = await prepareStore(store, url, warn)
  const login = await obtain(session, flags.token)
  output.hide(login.token, earlier?.token)
  const tokenStore = await keepLogin(
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
      token_store: tokenStore,
    },
    message: `Logged in to ${url} as ${String(email ?? name)}, until ${login.expiresAt}. The token is in ${tokenStore === 'file' ? store.file.path : 'the keyring of the system'}.`,
  })
}

async function obtain(
  session: PlatformSession,
  given: string | undefined,
): Promise<Identity & { readonly token: string }> {
  const { loginByDevice, PlatformError, verifyLogin } = await import('@osmosis/platform')
  const token = given?.trim()
  if (token === undefined) {
    return loginByDevice(session.client(), {
      deviceName: hostname(),
      signal: session.signal,
      onCode: ({ userCode, url, completeUrl }) => {
        session.output.note(`Open ${url} and enter the code ${userCode}`)
        if (isInteractive() && /^https?:\/\//.test(completeUrl)) openBrowser(completeUrl)
      },
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

/** Revokes the token of the stored login for the platform, and removes it. */
async function logOut(
  session: PlatformSession,
  flags: FlagsOf<typeof declareLogout>,
): Promise<void> {
  const { forgetLogin } = await import('@osmosis/platform')
  const { output, logins: store, settings } = session
  const { url } = settings
  const { file } = store
  const end = (status: string, message: string): void =>
    output.operation({
      status,
      operation: 'auth.logout',
      resource: { platform_url: url },
      message,
    })
  const moved = await file.moveCorrupt()
  if (moved !== undefined) {
    output.warn('CREDENTIALS_MOVED', `${file.path} could not be read, and was renamed to ${moved}.`)
  }
  const login = await file.find(url)
  if (login === undefined) {
    end('noop', `Not logged in to ${url}.`)
    return
  }
  output.hide(login.token)
  const who = typeof login.user['email'] === 'string' ? ` of ${login.user['email']}` : ''
  const agreed = await session.confirm(
    { prompt: `Log out of ${url}?`, summary: `This revokes the token of the login${who}.` },
    flags.yes,
  )
  if (!agreed) {
    end('cancelled', 'Still logged in.')
    return
  }
  await forgetLogin(login, {
    store,
    url,
    clientFor: (token) => session.client(token),
    warn: ({ code, message }) => output.warn(code, message),
  })
  const still = settings.environmentToken === undefined ? '' : ' OSMOSIS_TOKEN is still set.'
  end('success', `Logged out of ${url}.${still}`)
}

/** Shows the user of the login, as the platform knows it. */
async function whoAmI(session: PlatformSession): Promise<void> {
  const { verifyLogin } = await import('@osmosis/platform')
  const { token, source, stored } = await session.login()
  const { user, expiresAt, workspace } = await verifyLogin(
    session.client(token, await scopeIfAny(session)),
  )
  const saved =
    stored ?? (await session.logins.file.find(session.settings.url).catch(() => undefined))
  const { email = null, name = null, id = null } = user
  session.output.detail({
    account: email ?? id,
    email,
    name,
    expires_at: expiresAt,
    platform_url: session.settings.url,
    source,
    effective_source: source,
    persistent_login: saved !== undefined,
    workspace,
  })
}

/** The workspace is optional: the user is known without it. */
async function scopeIfAny(session: PlatformSession): Promise<Scope | undefined> {
  try {
    const { scope } = await session.workspace()
    return scope
  } catch {
    return undefined
  }
}
