import { existsSync, readFileSync, writeFileSync } from 'node:fs'

import { expect, it } from 'vitest'

import { desktopUser, recordIn, withSecretService, storedByPython } from './desktop-user.ts'
import { json, token, storedLogin } from './on-platform.ts'

withSecretService.describe('with the Secret Service', () => {
  it('a login is stored in the keyring, read from it, replaced and removed', async () => {
    const user = await desktopUser()
    const first = await user.command('auth login --json --token standing-token')
    expect([first.code, first.stderr]).toEqual([0, ''])
    expect(json(first.stdout)).toMatchObject({ resource: { token_store: 'keyring' } })

    const { keyring_account: account, ...record } = recordIn(user)
    expect(record).toMatchObject({ token_store: 'keyring', token_id: 'token-1' })
    expect(readFileSync(user.credentials, 'utf8')).not.toContain(token)
    // The attributes by which the Python command line looks for it.
    const attributes = ['service', 'osmosis-cli', 'username', String(account)]
    expect(user.secretTool(['lookup', ...attributes])).toBe(token)

    const who = await user.command('auth whoami --json')
    expect(json(who.stdout)).toMatchObject({
      data: { source: 'keyring', email: 'ada@example.com' },
    })

    expect((await user.command('auth login')).stdout).toMatch(/The token is in the keyring/)
    expect(user.platform.calls.at(-1)).toBe('DELETE tokens/token-1')
    const all = user.secretTool(['search', '--all', 'service', 'osmosis-cli'])
    expect(all.match(/^secret = .*/gm)).toEqual(['secret = device-token-1'])

    const out = await user.command('auth logout --yes --json')
    expect([out.code, out.stderr]).toEqual([0, ''])
    expect(user.platform.calls.at(-1)).toBe('DELETE tokens/device-1')
    expect(user.secretTool(['search', '--all', 'service', 'osmosis-cli'])).toBe('')
    expect(existsSync(user.credentials)).toBe(false)
  })

  it('without a keyring the token is stored in the file, and the login reports it', async () => {
    const user = await desktopUser({ keyring: false })
    const { code, stdout, stderr } = await user.command(`auth login --token ${token}`)
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining(`The token is in ${user.credentials}`),
    ])
    expect(stderr).toMatch(/^warning: The keyring of the system cannot be used: .*stored in /)
    expect(recordIn(user)).toMatchObject({ token_store: 'file', access_token: token })
  })
})

withSecretService.describe('with the Secret Service', { tags: 'slow' }, () => {
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
