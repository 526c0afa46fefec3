import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

import type { AgentWorkflowClass, GraderClass } from '@osmosis/core'
import { startPolicyServer, type Reply } from '@osmosis/testing'
import { expect, inject, test } from 'vitest'

import { execute, rewardsOf } from './adapter-rollouts.ts'

const question = { role: 'user', content: 'What is 12 times 34?' } as const

/** The complete example of an adapter's README: an agent that multiplies 12 by 34. */
export interface AdapterExample {
  readonly workflow: AgentWorkflowClass
  readonly grader: GraderClass
  readonly sampleId: string
  /** Messages before the question. Default: the instructions of a system message. */
  readonly instructions?: readonly { role: 'system'; content: string }[]
}

/** Tests that an example rewards right answers alone, and records the conversation with the result of its tool. */
export function runExampleContract(example: AdapterExample): void {
  const { instructions = [{ role: 'system', content: 'Be exact.' }], sampleId } = example
  test.each([
    ['right', '12 times 34 is 408.', 1],
    ['wrong', '12 times 34 is 1408.', 0],
  ])('the complete example rewards a %s answer', async (_verdict, answer, reward) => {
    await using server = await startPolicyServer([
      { toolCalls: [{ name: 'multiply', arguments: '{"a": 12, "b": 34}' }] },
      answer,
    ])
    const { workflow, grading } = await execute(server, example.workflow, {
      prompt: [...instructions, question],
      label: '408',
      grader: example.grader,
    })
    expect(workflow.failure).toBeNull()
    expect(rewardsOf(grading)).toEqual({ [sampleId]: reward })
    const recorded = grading?.samples.get(sampleId)?.trajectoryMessages ?? []
    expect(recorded.slice(-4)).toMatchObject([
      question,
      { role: 'assistant' },
      { role: 'tool', content: '408' },
      { role: 'assistant', content: answer },
    ])
    expect(JSON.stringify(recorded.slice(0, -4))).toContain(instructions[0]?.content ?? '')
  })
}

/** Tests that documents show files as the tests run them; all paths are those from the test. */
export function showExamples(testUrl: string, shown: readonly (readonly [string, string])[]): void {
  test.each(shown)('%s, which is run here, is shown in %s', (file, document) => {
    expect(textOf(document, testUrl)).toContain(`\`\`\`ts\n${textOf(file, testUrl)}\`\`\`\n`)
  })
}

/** What the policy answers to the program that the migration guides migrate: a calculator that multiplies 12 by 34. */
const calculatorAnswers = [
  { toolCalls: [{ id: 'call-1', name: 'multiply', arguments: '{"a": 12.0,"b":34}' }] },
  '12 times 34 is 408.',
] satisfies Reply[]

/** The part of the calculator's first request that a migration must not change. */
export const calculatorRequest = {
  temperature: 1,
  max_tokens: 4096,
  messages: [
    { role: 'system', content: 'Use the multiply tool when arithmetic is required.' },
    question,
  ],
  tools: [{ type: 'function', function: { name: 'multiply' } }],
} as const

/** A program of a framework, as it is before and after its migration. */
export interface MigratedProgram {
  readonly before: URL
  readonly after: URL
  /** What the program exports after its migration. */
  readonly workflow: AgentWorkflowClass
  readonly grader: GraderClass
  /** Default: `calculator`. */
  readonly sampleId?: string
  /** How the programs are tested that users start, each in a process of its own. */
  readonly users?: { readonly tags?: 'slow' }
  /** Runs a program for users, checks what their model received, and returns what it printed. */
  readonly serveUser?: (program: URL) => Promise<string>
  /** What the framework sends differently to the user's model. */
  readonly userRequest?: object
  /** What the framework sends differently to the policy. */
  readonly policyRequest?: object
}

/** Tests that a program serves users before and after its migration, and runs as a rollout after it. */
export function runMigrationContract(program: MigratedProgram): void {
  const { serveUser = serveUserOn(program.userRequest), sampleId = 'calculator' } = program
  // A child process resolves the framework by itself, so this is about one version only.
  test.runIf(isNewestVersion()).each(['before', 'after'] as const)(
    'the program serves users %s the migration',
    program.users ?? {},
    async (when) => {
      const stdout = await serveUser(program[when])
      // A framework may log its requests there as well.
      expect(stdout).toMatch(/(?:^|\n)12 times 34 is 408\.\n$/)
    },
  )

  test('the program runs as a rollout after the migration', async () => {
    await using server = await startPolicyServer(calculatorAnswers)
    const { workflow, grading } = await execute(server, program.workflow, {
      prompt: [question],
      label: '408',
      grader: program.grader,
    })
    expect(workflow).toEqual({ status: 'success', failure: null, warnings: [] })
    const sample = grading?.samples.get(sampleId)
    expect(sample?.reward).toBe(1)
    expect(sample?.trajectoryMessages?.slice(-4)).toMatchObject([
      question,
      { role: 'assistant', tool_calls: [{ function: { arguments: '{"a": 12.0,"b":34}' } }] },
      { role: 'tool', tool_call_id: 'call-1', content: '408' },
      { role: 'assistant', content: '12 times 34 is 408.' },
    ])
    expect(sample?.calls.map(({ extendsPrevious }) => extendsPrevious)).toEqual([true, true])
    expect(server.requests[0]?.body).toMatchObject({
      model: 'osmosis-rollout',
      ...calculatorRequest,
      ...program.policyRequest,
    })
  })
}

function serveUserOn(userRequest: object = {}): (program: URL) => Promise<string> {
  return async (program) => {
    await using server = await startPolicyServer(calculatorAnswers)
    const env = {
      MODEL_BASE_URL: server.url,
      MODEL_API_KEY: 'key',
      OPENAI_BASE_URL: server.url,
      OPENAI_API_KEY: 'key',
      OPENAI_AGENTS_DISABLE_TRACING: '1',
    }
    const { stdout, stderr } = await printedBy(program, env)
    expect(stderr).toBe('')
    const request = { model: 'gpt-4.1', ...calculatorRequest, ...userRequest }
    expect(server.requests[0]?.body).toMatchObject(request)
    return stdout
  }
}

/** Runs a program to its end, as a user would. */
export async function printedBy(
  program: URL,
  env: Readonly<Record<string, string>>,
): Promise<{ stdout: string; stderr: string }> {
  return promisify(execFile)(process.execPath, [fileURLToPath(program)], { env })
}

/** False on the oldest version of a framework that its adapter supports. */
export function isNewestVersion(): boolean {
  return !inject('lowestFrameworks')
}

/**
 * Tests that the tests of an adapter run on both ends of the range of versions in its manifest.
 *
 * @param range - the range, with the lowest version
 * @param lowest - the folder of the lowest version. Default: a package with another name
 */
export function testPeerRange(
  testUrl: string,
  name: string,
  range: (lowest: string) => string,
  lowest = `../node_modules/${name}-lowest`,
): void {
  test('the two versions are the ends of the peer range', () => {
    const { peerDependencies } = JSON.parse(textOf('../package.json', testUrl)) as Manifest
    const version = versionIn(lowest, testUrl)
    expect(peerDependencies).toEqual({ [name]: range(version) })
    expect(versionIn(`../node_modules/${name}`, testUrl)).not.toBe(version)
  })
}

/** The version of the package in a folder, by its path from a test. */
export function versionIn(folder: string, testUrl: string): string {
  return (JSON.parse(textOf(`${folder}/package.json`, testUrl)) as Manifest).version
}

interface Manifest {
  readonly version: string
  readonly peerDependencies: object
}

function textOf(path: string, testUrl: string): string {
  return readFileSync(new URL(path, testUrl), 'utf8')
}
