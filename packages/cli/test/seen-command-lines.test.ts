import { chmodSync, existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

import { parseRedisAddress, type RedisAddress } from '@osmosis/protocol/wire'
import { describe, expect, it, vi } from 'vitest'

import { remotePlace } from '../src/eval/models/remote-servers.ts'
import { inWorkspace, run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'
import { startInTerminal } from './pseudo-terminal.ts'

inWorkspace()

describe('other users of a machine see command lines, and no secret on them', () => {
  it('the browser of eval view gets a file that only this user can read, until the page ends', async () => {
    const folder = temporaryFolder()
    const opened = path.join(folder, 'arguments')
    for (const name of ['xdg-open', 'open']) {
      writeFileSync(
        path.join(folder, name),
        `#!/bin/sh\nprintf '%s\\n' "$@" > ${opened}.new && mv ${opened}.new ${opened}\n`,
      )
      chmodSync(path.join(folder, name), 0o700)
    }
    const env = { PATH: `${folder}:${process.env['PATH']}` }
    const view = startInTerminal(['eval', 'view', '--output', temporaryFolder()], { env })
    const printed = await view.until('Ctrl-C ends it.')
    await vi.waitUntil(() => existsSync(opened), { timeout: 60_000 })
    const [url = '', token = ''] = /http:\S+#token=([\w-]+)\S*/.exec(printed) ?? []
    const [argument = '', ...others] = readFileSync(opened, 'utf8').trim().split('\n')
    expect([argument.slice(0, 8), argument.includes(token), others]).toEqual([
      'file:///',
      false,
      [],
    ])
    const file = fileURLToPath(argument)
    expect(readFileSync(file, 'utf8')).toContain(`content="0;url=${url}"`)
    expect([file, path.dirname(file)].map((name) => statSync(name).mode & 0o77)).toEqual([0, 0])
    view.type('\u0003')
    await view.ended
    expect(existsSync(path.dirname(file))).toBe(false)
  })

  it('the page of eval view is served also where no file for the browser can be written', async () => {
    const words = ['eval', 'view', '--output', temporaryFolder()]
    const view = startInTerminal(words, { env: { TMPDIR: '/nowhere' } })
    await view.until('Ctrl-C ends it.')
    view.type('\u0003')
    expect(await view.ended).toMatchObject({ code: 0 })
  })

  it.each([
    ['serve --help', '--api-key <key>', '$OSMOSIS_ROLLOUT_SERVER_API_KEY'],
    ['serve --help', '--redis <url>', '$OSMOSIS_REDIS_PASSWORD'],
    ['worker --help', '--redis <url>', '$OSMOSIS_REDIS_PASSWORD'],
  ])('%s says so of %s, and names %s', async (words, flag, instead) => {
    const { stdout } = await run(words.split(' '))
    const help = stdout.replaceAll(/\s+/g, ' ')
    const said = help.slice(help.indexOf(flag), help.indexOf(flag) + 300)
    expect(said).toContain('other users of this machine')
    expect(said).toContain(instead)
  })

  it.each([
    ['redis://:p%40ss-word@127.0.0.1:6379', 'p@ss-word'],
    ['redis://user:secret-1@127.0.0.1:6379/2', 'secret-1'],
    ['rediss://:secret-2@localhost', 'secret-2'],
    ['redis://:50%off/the?pass#word@localhost', '50%off/the?pass#word'],
  ])('the server of eval run gets the password of %s from its environment', (redis, password) => {
    const named = { redis, prefix: null, keyFile: null, policyHost: null }
    const { queue } = remotePlace({}, named, {})
    expect(queue?.env).toEqual({ OSMOSIS_REDIS_PASSWORD: password })
    const whole = parseRedisAddress(redis)
    expect(whole).toMatchObject({ password })
    expect(parseRedisAddress(queue?.redis ?? '')).toEqual({
      ...(whole as RedisAddress),
      password: undefined,
    })
  })
})
