import { readdir } from 'node:fs/promises'
import path from 'node:path'

import { LocalBackend } from '@osmosis/server/execution'
import { describe, expect, it } from 'vitest'

import {
  addressForms,
  post,
  resolveNames,
  temporaryFolder,
  statusAndBody,
  type AddressForm,
} from '../../../test/kit/index.ts'
import { AskOnce, startServer, type RunningServer } from './running-server.ts'

/** All forms are tested with the policy in core. */
const samples = (['forbidden', 'private', 'public'] as const).flatMap((kind) =>
  addressForms.filter((form) => form.kind === kind).slice(0, 1),
)
const reasons = {
  forbidden: 'it leads to a link-local, multicast, unspecified or metadata address',
  private: 'it leads to a private address, and those are refused',
  public: 'its host is not among the allowed ones',
}

function refusalOf(keys: readonly string[], kind: keyof typeof reasons): unknown {
  const msg = `this server does not connect there: ${reasons[kind]}`
  const detail = keys.map((key) => ({ type: 'value_error', loc: ['body', key], msg }))
  return { status: 422, body: { detail } }
}

const urls = ['chat_completions_url', 'completion_callback_url', 'grader_callback_url']

/** Every URL of a rollout is refused, at once and by its name. */
async function expectRefused(running: RunningServer, { host, kind }: AddressForm): Promise<void> {
  const there = Object.fromEntries(urls.map((key) => [key, `http://${host}:8080/v1`]))
  expect([host, await statusAndBody(await running.post(there))]).toStrictEqual([
    host,
    refusalOf(urls, kind),
  ])
}

describe('a server', () => {
  it('refuses rollouts with metadata and link-local addresses, whatever the configuration', async () => {
    const forms = samples.filter(({ kind }) => kind === 'forbidden')
    for (const egress of [undefined, { allowedHosts: ['*', '0.0.0.0/0', '[::/0]'] }]) {
      await using running = await startServer({ egress })
      for (const form of forms) await expectRefused(running, form)
      expect(running.controller.events).toStrictEqual([])
    }
  })

  it('refuses leased rollouts in the same way', async () => {
    await using running = await startServer({ egress: { privateAddresses: 'refuse' } })
    const leased = { rollout_id: 'r1', initial_messages: [] }
    for (const { host, kind } of samples) {
      if (kind === 'public') continue
      const body = { ...leased, chat_completions_url: `http://${host}:8080/v1` }
      expect(await statusAndBody(await post(`${running.url}/rollout`, body))).toStrictEqual(
        refusalOf(['chat_completions_url'], kind),
      )
    }
  })

  it('fails the rollout with http_error when its policy resolves to a refused address', async () => {
    resolveNames({ 'policy.test': [['169.254.169.254']] })
    await using running = await startServer()
    expect((await running.post({ chat_completions_url: 'http://policy.test/v1' })).status).toBe(202)
    expect(await running.controller.bodies()).toMatchObject([
      {
        status: 'failure',
        err_category: 'http_error',
        err_message:
          'The policy endpoint was not called: it leads to a link-local, multicast, unspecified or metadata address (http://policy.test/v1/chat/completions).',
      },
      { status: 'failure' },
    ])
  })

  it('delivers to a name, and not to an address that the name gets later', async () => {
    resolveNames({ 'controller.test': [['127.0.0.1'], ['169.254.169.254']] })
    await using running = await startServer()
    const { port } = new URL(running.controller.url)
    // The second callback needs a connection of its own.
    running.controller.answers['completion'] = [
      (response) => response.writeHead(200, { connection: 'close' }).end(),
    ]
    await running.post({
      completion_callback_url: `http://controller.test:${port}/completion`,
      grader_callback_url: `http://controller.test:${port}/grader`,
    })
    await running.server.drain()
    expect(running.controller.callbacks).toMatchObject([
      { kind: 'completion', body: { status: 'success' } },
    ])
    const lost = running.log.filter(({ message }) => message === 'callback not delivered')
    expect(lost).toMatchObject([
      { fields: { callback: 'grader', outcome: 'refused', attempts: 1 } },
    ])
  })

  it('writes a callback to a refused address to a file, and does not send it again', async () => {
    resolveNames({ 'controller.test': [['169.254.169.254'], ['127.0.0.1']] })
    const folder = path.join(await temporaryFolder(), 'outbox')
    await using running = await startServer({ outboxDir: folder })
    const { port } = new URL(running.controller.url)
    await running.post({
      completion_callback_url: `http://controller.test:${port}/completion`,
      grader_callback_url: null,
    })
    await running.server.drain()
    expect(running.server.undelivered).toBe(0)
    expect(running.controller.callbacks).toStrictEqual([])
    expect(await readdir(folder)).toContainEqual(expect.stringMatching(/\.refused$/))
  })

  it('follows no redirect of a controller', async () => {
    await using running = await startServer()
    running.controller.answers['completion'] = [
      (response) =>
        response.writeHead(307, { location: `${running.controller.url}/elsewhere` }).end(),
    ]
    await running.post()
    await running.server.drain()
    expect(running.controller.callbacks.map(({ kind }) => kind)).toStrictEqual([
      'completion',
      'grader',
    ])
  })

  it('cannot be created with hosts that cannot be parsed', () => {
    const egress = { allowedHosts: ['https://trainer'] }
    expect(() => new LocalBackend({ workflow: AskOnce, egress })).toThrow('An allowed host must be')
  })
})
