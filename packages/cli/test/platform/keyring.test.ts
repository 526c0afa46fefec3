import { existsSync, readFileSync } from 'node:fs'

import { expect, it } from 'vitest'

import { desktopUser, recordIn, withSecretService } from './desktop-user.ts'
import { json, token } from './on-platform.ts'

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
