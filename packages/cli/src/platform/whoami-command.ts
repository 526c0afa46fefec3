import { verifyLogin, type Scope } from '@osmosis/platform'

import type { PlatformSession } from './platform-session.ts'

/** Asks the platform who is logged in. */
export async function whoamiCommand(session: PlatformSession): Promise<void> {
  const { token, source, stored } = await session.login()
  const { user, expiresAt, workspace } = await verifyLogin(
    session.client(token, await scopeIfAny(session)),
  )
  const kept =
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
    persistent_login: kept !== undefined,
    workspace,
  })
}

/** Outside of a workspace the question is who, not where. */
async function scopeIfAny(session: PlatformSession): Promise<Scope | undefined> {
  try {
    const { scope } = await session.workspace()
    return scope
  } catch {
    return undefined
  }
}
