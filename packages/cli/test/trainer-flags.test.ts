import { expect, it } from 'vitest'

import { inWorkspace, run as osmosis } from './in-process.ts'

inWorkspace()

const echo = 'rollouts/echo/main.ts'
const lightning = '--agent-lightning http://127.0.0.1:1'

/** Flags of a worker, and what is wrong with them. */
const refusals = {
  '': 'Name one source of rollouts for the worker: --redis <url> or --agent-lightning <url>.',
  [`${lightning} --redis redis://127.0.0.1:1`]:
    '--redis and --agent-lightning exclude each other: a worker has one source of rollouts.',
  [`${lightning} --lock-duration 3`]: '--lock-duration only applies to a queue: it needs --redis.',
  '--redis redis://127.0.0.1:1 --reward mean':
    '--reward only applies to a trainer: with a queue its servers decide this.',
  '--agent-lightning gateway:8080':
    'The URL of the gateway of Agent Lightning is not an http or https URL: "gateway:8080". Write it like http://127.0.0.1:8080.',
  '--agent-lightning http://user:pass#@gateway:8080':
    'The URL of the gateway of Agent Lightning is not an http or https URL: "gateway:8080". Write it like http://127.0.0.1:8080.',
  '--agent-lightning ftp://user:secret@gateway':
    'The URL of the gateway of Agent Lightning is not an http or https URL: "gateway". Write it like http://127.0.0.1:8080.',
  '--agent-lightning http://user:secret@gateway:8080':
    'The URL of the gateway of Agent Lightning must have no credentials, query and fragment. Write it like http://127.0.0.1:8080, and pass a key as apiKey, or in OSMOSIS_TRAINER_KEY for `osmosis worker`.',
  [`${lightning} --rows ${echo}`]:
    "rollouts/echo/main.ts has no export 'rows'. Its exports: EchoGrader, EchoWorkflow.",
}

it.each(Object.entries(refusals))('refuses worker %s', async (flags, said) => {
  const args = ['worker', echo, ...flags.split(' ').filter((word) => word !== '')]
  expect(await osmosis(args)).toEqual({ code: 2, stdout: '', stderr: `error: ${said}\n` })
})

it('refuses a key that cannot be sent, by the name of its variable', async () => {
  const args = ['worker', echo, ...lightning.split(' ')]
  expect(await osmosis(args, { OSMOSIS_TRAINER_KEY: 'key\n' })).toEqual({
    code: 2,
    stdout: '',
    stderr:
      'error: OSMOSIS_TRAINER_KEY must be visible ASCII characters without spaces and line breaks: callers send it in a header.\n',
  })
})
