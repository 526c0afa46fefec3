import path from 'node:path'

import { Codex } from '@openai/codex-sdk'

const here = import.meta.dirname

const codex = new Codex({
  config: {
    mcp_servers: {
      calculator: { command: process.execPath, args: [path.join(here, 'calculator-server.ts')] },
    },
  },
})
const thread = codex.startThread({
  model: 'gpt-5.5',
  workingDirectory: here,
  skipGitRepoCheck: true,
  sandboxMode: 'danger-full-access',
  approvalPolicy: 'never',
})
const turn = await thread.run('What is 12 times 34?')
console.log(turn.finalResponse)
