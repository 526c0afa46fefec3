import { writeFileSync } from 'node:fs'

import { expect, it } from 'vitest'

import { desktopUser, recordIn, storedByPython, withSecretService } from './desktop-user.ts'
import { json, storedLogin, token } from './on-platform.ts'

withSecretService.describe('with the Secret Service', () => {
  it('a login that the Python command line made is read, and removed', async () => {
    const user = await desktopUser({ loggedIn: true })
    await user.osmosis(`auth login --token ${token}`)
    const { keyring_account: account } = recordIn(user)
    const changes = { token_store: 'keyring', access_token: undefined, keyring_account: account }
    writeFileSync(user.credentials, JSON.stringify(storedLogin(user.platform.url, changes)))
    storedByPython(user)

    const who = await user.command('auth whoami --json')
    expect(json(who.stdout)).toMatchObject({ data: { source: 'keyring' } })
    const out = await user.command('auth logout --yes --json')
    expect([out.code, out.stderr]).toEqual([0, ''])
    expect(user.secretTool(['search', '--all', 'service', 'osmosis-cli'])).toBe('')
  })

  it('a login with the same token by both command lines is read, and left unchanged', async () => {
    const user = await desktopUser()
    await user.command(`auth login --token ${token}`)
    storedByPython(user)
    const who = await user.command('auth whoami --json')
    expect(json(who.stdout)).toMatchObject({ data: { source: 'keyring' } })
    const again = await user.command(`auth login --token ${token}`)
    expect([again.code, again.stderr]).toEqual([0, ''])
    // Which of the two entries is ours cannot be said to the keyring.
    const out = await user.command('auth logout --yes --json')
    expect(json(out.stderr)).toMatchObject({ warning: { code: 'KEYRING_CLEANUP_FAILED' } })
    expect(user.platform.calls.at(-1)).toBe('DELETE tokens/token-1')
  })

  it('without one nothing that needs it is done', async () => {
    const user = await desktopUser({ keyring: false, loggedIn: true })
    const changes = { token_store: 'keyring', access_token: undefined }
    writeFileSync(user.credentials, JSON.stringify(storedLogin(user.platform.url, changes)))
    const refused = { error: { code: 'KEYRING_UNAVAILABLE' } }
    const who = await user.command('auth whoami --json')
    expect([who.code, json(who.stderr)]).toMatchObject([1, refused])
    const login = await user.command(`auth login --json --token ${token}`, {
      OSMOSIS_TOKEN_STORE: 'keyring',
    })
    expect([login.code, json(login.stderr)]).toMatchObject([1, refused])
    expect(user.platform.calls).toEqual([])
  })
})
