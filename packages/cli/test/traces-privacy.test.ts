import { createHash, randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'

import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'

import { run } from './in-process.ts'
import { temporaryFolder } from './osmosis.ts'

/** What from-traces makes of texts that users said, in one question each. */
async function said(texts: readonly string[], ...flags: string[]): Promise<string[]> {
  const folder = temporaryFolder()
  const [file, output] = [path.join(folder, 'traces.jsonl'), path.join(folder, 'rows.jsonl')]
  const traces = texts.map((text, id) =>
    JSON.stringify({ id: `t${id}`, name: 'n', input: `${id}|${text}` }),
  )
  writeFileSync(file, traces.join('\n'))
  const { code, stderr } = await run(['dataset', 'from-traces', file, '-o', output, ...flags])
  expect([code, stderr]).toEqual([0, expect.stringContaining(`Kept      ${texts.length} row`)])
  expect(readdirSync(folder).toSorted()).toEqual(['rows.jsonl', 'traces.jsonl'])
  const rows = readFileSync(output, 'utf8').trimEnd().split('\n')
  return rows.map((row) => {
    const { user_prompt: prompt } = JSON.parse(row) as { user_prompt: string }
    return prompt.slice(prompt.indexOf('|') + 1)
  })
}

const hex = (characters: number): string =>
  createHash('sha512').update('k').digest('hex').slice(0, characters)
const letters = (characters: number): string =>
  'aB3dE5gH7jK9mN2pQ4sT6vW8yZ'.repeat(12).slice(0, characters)

describe('what users of an agent said has placeholders for', () => {
  it.each<[string, string]>([
    ['password=hunter2', 'password=[secret]'],
    ['My password: swordfish', 'My password: [secret]'],
    ['Password: "correct horse battery staple"', 'Password: "[secret]"'],
    ['{"password": "hunter2", "a": 1}', '{"password": "[secret]", "a": 1}'],
    [String.raw`{\"password\": \"hunter2\"}`, String.raw`{\"password\": \"[secret]\"}`],
    ["DB_PASSWORD='x y'", "DB_PASSWORD='[secret]'"],
    ['"password": "cut off', '"password": "[secret]'],
    ['api_key: abc123def', 'api_key: [secret]'],
    ['apiKey = "zzz-9999"', 'apiKey = "[secret]"'],
    ['token: 8f7d6a5b', 'token: [secret]'],
    ['key: 9aK2mQ7xR4', 'key: [secret]'],
    ['secret := s3cr3t!', 'secret := [secret]'],
    ['export SECRET=patience', 'export SECRET=[secret]'],
    ['client_secret => GHjk-9812_xx', 'client_secret => [secret]'],
    ['Cookie: session=abc; theme=dark', 'Cookie: [secret]'],
    ['-H "Set-Cookie: sid=x; Path=/"', '-H "Set-Cookie: [secret]"'],
    ['Authorization: Basic dXNlcjpwYXNz', 'Authorization: Basic [secret]'],
    ['"authorization": "Token 0123abcd"', '"authorization": "Token [secret]"'],
    ['curl --password hunter2 x', 'curl --password [secret] x'],
    ['https://x.y/?token=abc123def&b=1', 'https://x.y/?token=[secret]&b=1'],
    ['Server=s;Uid=u;Pwd=letmein;', 'Server=s;Uid=u;Pwd=[secret];'],
  ])('an assignment: %s', async (text, expected) => {
    expect(await said([text])).toEqual([expected])
  })

  it('keys of providers, by how they begin', async () => {
    const keys = `
      sk-proj-${letters(32)} sk-ant-api03-${letters(32)} sk-or-v1-${hex(64)} sk_live_${letters(24)} whsec_${letters(32)}
      pk-lf-${hex(8)}-${hex(12)} gsk_${letters(52)} xai-${letters(80)} pplx-${letters(48)} r8_${letters(37)} hf_${letters(34)}
      AKIAIOSFODNN7EXAMPLE ASIAIOSFODNN7EXAMPLE AIza${letters(35)} ya29.${letters(60)} GOCSPX-${letters(28)}
      ghp_${letters(36)} ghs_${letters(36)} github_pat_${letters(60)} glpat-${letters(20)} npm_${letters(36)}
      pypi-${letters(80)} rubygems_${hex(48)} dckr_pat_${letters(27)} xoxb-123456789012-${letters(24)} xapp-1-${letters(40)}
      123456789:AA${letters(33)} SK${hex(32)} SG.${letters(22)}.${letters(43)} key-${hex(32)} ${hex(32)}-us12
      xkeysib-${hex(64)}-${letters(16)} dop_v1_${hex(64)} shpat_${hex(32)} dapi${hex(32)} lin_api_${letters(40)}
      ntn_${letters(46)} figd_${letters(40)} PMAK-${hex(24)}-${hex(34)} hvs.${letters(90)} dp.pt.${letters(43)}
      sbp_${hex(40)} nfp_${letters(36)} ATATT3${letters(60)} NRAK-${letters(27)} glsa_${letters(32)}_${hex(8)} lsv2_pt_${letters(32)}
      sq0atp-${letters(22)} pscale_tkn_${letters(43)} eyJ${letters(20)}.eyJ${letters(20)}.${letters(20)}`
      .trim()
      .split(/\s+/)
    expect(keys.length).toBeGreaterThan(45)
    expect(await said(keys.map((key) => `use ${key}, please`))).toEqual(
      keys.map(() => 'use [api key], please'),
    )
  })

  it('long texts that were drawn at random, in most cases', async () => {
    const drawn = Array.from({ length: 300 }, (_, at) => {
      const bytes = randomBytes(24 + (at % 30))
      return bytes.toString(at % 2 === 0 ? 'base64' : 'base64url')
    })
    const kept = (await said(drawn.map((text) => `it is ${text} now`))).filter(
      (text) => !text.includes('[random text]'),
    )
    expect(kept.length).toBeLessThan(45)
  })

  it.each<[string, string]>([
    [
      '-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY----- after',
      '[private key] after',
    ],
    ['-----BEGIN PRIVATE KEY-----\nMIIEow and so on, cut off', '[private key]'],
    ['-----BEGIN OPENSSH PRIVATE KEY-----\nb3Bl', '[private key]'],
    ['-----BEGIN PGP PRIVATE KEY BLOCK-----\nx\n\ny', '[private key]'],
    ['-----BEGIN ENCRYPTED PRIVATE KEY-----' + 'A'.repeat(90_000), '[private key]'],
  ])('a private key, to the end of the text where it has no end', async (text, expected) => {
    expect(await said([text])).toEqual([expected])
  })

  it.each<[string, string]>([
    ['DE89 3704 0044 0532 0130 00 please', '[iban] please'],
    ['BE68 5390 0754 7034 from', '[iban] from'],
    ['GB82WEST12345698765432', '[iban]'],
    ['fr76 3000 6000 0112 3456 7890 189', '[iban]'],
    ['NL91-ABNA-0417-1643-00', '[iban]'],
    ['NO93 8601 1117 947 then', '[iban] then'],
  ])('an account number: %s', async (text, expected) => {
    expect(await said([text])).toEqual([expected])
  })

  it.each(
    [
      [
        '0171 2345678',
        '030 1234567',
        '0171/2345678',
        '(030) 1234567',
        '020 7946 0958',
        '07700 900123',
      ],
      ['06 12 34 56 78', '01.23.45.67.89', '0412 345 678', '03-1234-5678', '044 668 18 00'],
      [
        '(11) 91234-5678',
        '+49 (0)171 2345678',
        '+33 6 12 34 56 78',
        '(415) 555-0132',
        '415-555-0132',
      ],
    ].flat(),
  )('a phone number: %s', async (number) => {
    expect(await said([`My number is ${number}, thanks`])).toEqual(['My number is [phone], thanks'])
  })

  it.each<[string, string]>([
    ['jörg.müller@exämple.de', '[email]'],
    ['用户@例子.广告', '[email]'],
    ['иван@почта.рф', '[email]'],
    ["o'neil+x@mail.example.museum", '[email]'],
    ['joe@xn--exmple-cua.xn--p1ai', '[email]'],
    ['/home/jane/x.py', '/home/[user]/x.py'],
    ['/Users/jane.doe/Documents', '/Users/[user]/Documents'],
    [String.raw`C:\Users\Jane Doe\Desktop`, String.raw`C:\Users\[user]\Desktop`],
    [String.raw`"C:\\Users\\jane\\x"`, String.raw`"C:\\Users\\[user]\\x"`],
    ['file:///home/jane/a', 'file:///home/[user]/a'],
    ['/mnt/c/Users/jane/x', '/mnt/c/Users/[user]/x'],
    ['call me at 5551234567', 'call me at [phone]'],
  ])('names of people: %s', async (text, expected) => {
    expect(await said([text])).toEqual([expected])
  })

  it('secrets under their names in data', async () => {
    const folder = temporaryFolder()
    const [file, output] = [path.join(folder, 'traces.jsonl'), path.join(folder, 'rows.jsonl')]
    const data = {
      id: 't',
      name: 'n',
      input: 'Hi',
      scores: [{ id: 's', name: 'password', value: 'hunter2' }],
    }
    writeFileSync(file, JSON.stringify(data))
    expect((await run(['dataset', 'from-traces', file, '-o', output])).code).toBe(0)
    const row = JSON.parse(readFileSync(output, 'utf8')) as { metadata: unknown }
    expect(row.metadata).toMatchObject({ feedback: { password: '[secret]' } })
  })
})

describe('what users of an agent said stays as it is', () => {
  const texts = [
    // Prose.
    [
      'The key: practice every day.',
      'Press the key: Enter',
      'Password: must have at least 8 letters',
    ],
    [
      'secret: patience is everything',
      'A cookie: yes please',
      'authorization: required',
      'the token is invalid',
    ],
    [
      'The bearer responsibilities',
      'supercalifragilisticexpialidocious',
      'Mr. Key, token expert',
      '10 keys: a, b',
    ],
    // Code.
    [
      'def f(token: str, key: int = 3):',
      'const key = map.get(id)',
      'password: string;',
      'token: string | undefined',
    ],
    [
      'password = getpass.getpass()',
      'if (key === "x1y2z3") {',
      'max_tokens: 512',
      'keyboard: qwerty',
      'keys: [1, 2]',
    ],
    [
      'tokenizer: bert-base-uncased',
      'primary_key = "user_id"',
      '{"key": "name", "value": 3}',
      'for key, value in x:',
    ],
    [
      'token=process.env.TOKEN',
      'api_key=os.environ["KEY"]',
      'apiKey: config.apiKey',
      '{ apiKey: apiKey }',
      'key = "item-2024"',
    ],
    [
      'convertBase64ToUint8Array',
      'Experimental_VideoModelV4File',
      'MAX_NUMBER_OF_CONCURRENT_REQUESTS_V2',
      'parseHTML5DOMTree2XML',
    ],
    [
      'src/components/UserCard2/index.test.tsx',
      '/usr/local/lib/python3.11/site-packages',
      'react-dom@18.2.0',
      'icon@2x.png',
    ],
    [
      'git@github.com:org/repo.git',
      'std::vector<int>',
      '@scope/pkg-name-v2',
      'docker run -v $PWD:/root/mine x',
    ],
    // Hashes and ids, which tasks are about.
    [
      hex(40),
      hex(64),
      `sha256:${hex(64)}`,
      '123e4567-e89b-12d3-a456-426614174000',
      '0xdeadbeefdeadbeefdeadbeef',
    ],
    [
      'arXiv:2106.09685v2',
      '10.1145/3292500.3330701',
      'ACGTACGTACGTACGTACGTACGT',
      'Qwen2.5-Coder-32B-Instruct-AWQ',
    ],
    // Numbers, times and addresses that belong to no person.
    [
      '3.14159265358979323846',
      '1234567890123',
      'order 0123456789',
      '2026-01-02T03:04:05.123Z',
      '20260102T030405Z',
    ],
    [
      'on 01.02.2024 at 10:20',
      'x = 01 02 03 04 05 06 07',
      '1 000 000 000',
      'ISBN 0-306-40615-2',
      '02139-4307',
      '127.0.0.1:80',
    ],
    [
      'GB00WEST12345698765432',
      'http://example.com/home/about',
      '/home/user/x',
      '/home/$USER/x',
      'version 1.2.3.4',
    ],
  ].flat()

  it('in ordinary prose, code, hashes and numbers', async () => {
    expect(await said(texts)).toEqual(texts)
  })

  it('in any sentence of words', async () => {
    const word = fc.constantFrom(
      ...'the key to token a secret password of cookies and authorization is always near random walks in Paris'.split(
        ' ',
      ),
    )
    const sentence = fc
      .array(word, { minLength: 1, maxLength: 20 })
      .map((all) => `${all.join(' ')}.`)
    const sentences = fc.sample(
      fc.tuple(sentence, sentence).map((two) => two.join(' ')),
      { numRuns: 300, seed: 1 },
    )
    expect(await said(sentences)).toEqual(sentences)
  })
})

it('hostile texts of a megabyte are replaced in one pass', { tags: 'slow' }, async () => {
  const parts = [
    'a',
    ' ',
    '=',
    ':',
    '-',
    '@',
    '"',
    '\\',
    '0',
    '0 ',
    'a.',
    'key',
    'password=',
    '"key":',
    '-----BEGIN PRIVATE KEY',
    '/home/',
    '(0',
    'eyJ',
    'sk-',
    'Bearer ',
    '::',
    'é',
    'xn--.',
    'DE89',
  ]
  const texts = parts.map((part) => part.repeat(2 ** 20 / part.length))
  expect(await said(texts)).toHaveLength(texts.length)
})

it('the help of from-traces says that its rules guarantee nothing, and what they leave', async () => {
  const { stdout } = await run(['dataset', 'from-traces', '--help'])
  const help = stdout.replaceAll(/\s+/g, ' ')
  expect(help).toContain('They help and guarantee nothing: read the rows before you share them.')
  expect(help).toContain('Hashes, ids and other hexadecimal texts stay')
})
