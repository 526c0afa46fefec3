import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import type { Reply } from '@osmosis/testing'

const question = { role: 'user', content: 'What is 12 times 34?' } as const

/** The program that the migration guides migrate: a calculator that multiplies 12 by 34. */
export const calculatorMigration = {
  prompt: [question],
  label: '408',
  /** What the policy answers. */
  answers: [
    { toolCalls: [{ id: 'call-1', name: 'multiply', arguments: '{"a": 12.0,"b":34}' }] },
    '12 times 34 is 408.',
  ] satisfies Reply[],
  /** What the program prints. */
  printed: { stdout: '12 times 34 is 408.\n', stderr: '' },
  /** The part of its first request that a migration must not change. */
  unchanged: {
    temperature: 1,
    max_tokens: 4096,
    messages: [
      { role: 'system', content: 'Use the multiply tool when arithmetic is required.' },
      question,
    ],
    tools: [{ type: 'function', function: { name: 'multiply' } }],
  },
} as const

/** Runs a program to its end, as a user would. */
export async function printedBy(
  program: URL,
  env: Readonly<Record<string, string>>,
): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(process.execPath, [fileURLToPath(program)], { env })
}
