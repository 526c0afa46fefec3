import path from 'node:path'

import { reportOf } from '@osmosis/protocol'
import { createWorkerPool, startUserCode } from '@osmosis/server/child'

import { takeAllFiles } from '../../../../test/kit/starved/taken-files.ts'

// A process that has no free file descriptor while the worker of its pool is replaced, and while it starts user code.
const unstarted = Promise.withResolvers<void>()
const pool = await createWorkerPool({
  module: path.join(import.meta.dirname, 'harmful-worker.ts'),
  workers: 1,
  onWorkerEnd({ what }) {
    if (what.includes('EMFILE')) unstarted.resolve()
    console.log(what)
  },
})

async function run(does: string): Promise<string> {
  const events = pool.execute({
    rolloutId: does,
    initialMessages: [{ role: 'user', content: does }],
    label: null,
    metadata: null,
    chatCompletionsUrl: 'http://127.0.0.1:9/v1',
    apiKey: undefined,
    agentTimeoutSeconds: null,
    graderTimeoutSeconds: null,
    grade: false,
  })
  return (await reportOf(events)).workflow.status
}

const giveBack = takeAllFiles()
for (const pid of pool.workerPids) process.kill(pid, 'SIGKILL')
await unstarted.promise
const userCode = startUserCode({
  module: path.join(import.meta.dirname, 'harmful-worker.ts'),
  args: [],
  name: 'the process of user code',
  cwd: import.meta.dirname,
  env: {},
})
userCode.ready.catch(() => {})
console.log(`${(await userCode.ended).how}, with ${userCode.output.length} streams`)
giveBack()
console.log(`with files again: ${await run('nothing')}`)
await pool.close()
