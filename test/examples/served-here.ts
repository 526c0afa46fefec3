import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

import { expect, onTestFinished } from 'vitest'

import { listeningUrl, start } from './command.ts'

/**
 * Runs `osmosis serve` with these arguments as they are written for another machine: with folders of
 * this one, a rollout of the examples and a free port.
 *
 * @param asks - sends requests to the server; after it, SIGTERM has to end the server cleanly
 */
export async function serveHere(
  args: readonly string[],
  asks: (url: string) => Promise<void>,
): Promise<void> {
  const state = mkdtempSync(path.join(tmpdir(), 'osmosis-served-'))
  const keys = path.join(state, 'keys')
  writeFileSync(keys, 'the-key\n')
  const places: Record<string, string> = {
    'rollouts/my-agent/main.ts': 'examples/rollouts/multiply-ai-sdk/main.ts',
    'rollouts/my-rollout/main.ts': 'examples/rollouts/multiply-ai-sdk/main.ts',
    '0.0.0.0': '127.0.0.1',
    '/var/lib/osmosis/outbox': path.join(state, 'outbox'),
    '/run/secrets/osmosis/keys': keys,
    '/etc/osmosis/keys': keys,
    // One process is enough to see that they are started and ended.
    auto: '1',
  }
  const here = args.map((arg) => places[arg] ?? arg)
  const child = start('osmosis', ['serve', ...here, '--port', '0'])
  onTestFinished(() => {
    child.kill('SIGKILL')
    rmSync(state, { recursive: true, force: true })
  })
  const ended = once(child, 'exit')
  await asks(await listeningUrl(child))
  child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])
}
