import { afterAll, expect, inject, it } from 'vitest'

import { frameworks } from './frameworks.ts'
import { cleanUp, installed, npmInstall, run, tarballsOf } from './workspace.ts'

const tarballs = tarballsOf(inject('packed'))

afterAll(cleanUp)

const adapters = Object.entries(frameworks).filter(([, framework]) => framework !== undefined)
it.each(adapters)('brings with %s only %s', async (adapter, framework) => {
  const folder = await npmInstall(tarballs(adapter))
  const all = Object.values(frameworks).filter((name) => name !== undefined)
  // Mastra's models are those of the AI SDK.
  const brought = adapter === '@osmosis/mastra' ? ['ai', framework] : [framework]
  expect(installed(folder, all)).toEqual(brought)
  expect(installed(folder, ['@osmosis/server', '@osmosis/cli', '@osmosis/testing'])).toEqual([])
  await run(folder, 'node', ['--eval', `await import('${adapter}')`])
})

it('brings the library for keyrings, and says so where it was left out', async () => {
  const login = ['OSMOSIS_TOKEN_STORE=keyring', 'DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere']
  const words = ['node_modules/.bin/osmosis', 'auth', 'login', '--token', 'none']
  const refused = async (flags: readonly string[]): Promise<unknown> => {
    const folder = await npmInstall([...flags, ...tarballs('@osmosis/cli', '@osmosis/core')])
    return run(folder, 'env', [`HOME=${folder}`, ...login, ...words])
  }
  const cannot = 'error: The keyring of the system cannot be used: '
  await expect(refused(['--omit=optional'])).rejects.toMatchObject({
    stderr: expect.stringContaining(`${cannot}Cannot find package '@napi-rs/keyring'`),
  })
  await expect(refused([])).rejects.toMatchObject({
    stderr: expect.stringMatching(new RegExp(`^${cannot}.*(?:DBus|dbus)`)),
  })
})
