import path from 'node:path'

import { expect } from 'vitest'

import { startRedis, tlsCertificates, withPrograms } from '../../../test/kit/index.ts'
import { inWorkspace, readResults } from './in-process.ts'
import { startOsmosis, temporaryFolder } from './osmosis.ts'
import { temporaryWorkspace } from './temporary-workspace.ts'

inWorkspace()

const echo = 'rollouts/echo/main.ts'

withPrograms('redis-server', 'openssl').it(
  'a queue with TLS of an own authority needs its certificate before the process starts',
  { tags: 'nightly' },
  async () => {
    const tls = await tlsCertificates()
    const redis = await startRedis({ aof: true, tls, config: { 'tls-auth-clients': 'no' } })
    const root = temporaryWorkspace({ 'osmosis.toml': `[queue]\nredis = "${redis.url}"\n` })
    const worker = ['worker', echo, '--redis', redis.url]
    const refused = await startOsmosis(worker, {}, root).finished
    expect([refused.code, refused.stderr]).toEqual([
      1,
      expect.stringMatching(
        /^error: The Redis of the queue at rediss:\S+ does not answer: .*\. Name the file with the certificate of its authority in NODE_EXTRA_CA_CERTS, before this process starts\.\n$/,
      ),
    ])

    const env = { NODE_EXTRA_CA_CERTS: tls.ca }
    await startOsmosis(worker, env, root).printed(/Taking rollouts from the queue osmosis/)
    const output = temporaryFolder()
    const words = `-m ${echo} -d data/words.jsonl --policy policies/echo.ts --output ${output} --name r`
    const { code, stderr } = await startOsmosis(['eval', 'run', ...words.split(' ')], env, root)
      .finished
    expect([code, stderr]).toEqual([0, expect.any(String)])
    const { records } = readResults(path.join(output, 'r'))
    expect(new Set(records.map(({ status }) => status))).toEqual(new Set(['success']))
  },
)
