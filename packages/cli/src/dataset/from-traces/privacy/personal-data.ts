import { isIPv4, isIPv6 } from 'node:net'

/** Replaces keys and personal data by placeholders such as `[email]`, and counts what it replaced. */
export class PersonalData {
  /** By the name of the rule. */
  readonly replaced: Record<string, number> = {}
  readonly #rules: readonly PrivacyRule[]
  readonly #allowed: readonly RegExp[]

  /**
   * @param allow - a match of a rule that matches one of these stays
   * @param deny - what matches one of these is replaced too
   */
  constructor(allow: readonly RegExp[], deny: readonly RegExp[]) {
    this.#allowed = allow
    const denied = deny.map(({ source }) => ({ name: 'denied', pattern: new RegExp(source, 'g') }))
    this.#rules = [...denied, ...privacyRules]
  }

  /** The text without keys and personal data. */
  text(text: string): string {
    return this.#rules.reduce(
      (before, { name, pattern, holds }) =>
        before.replace(pattern, (match: string, ...details: unknown[]) => {
          const groups = details.at(-1)
          const [keep = '', at] =
            typeof groups === 'object' && groups !== null
              ? [(groups as { keep?: string }).keep, details.at(-3)]
              : ['', details.at(-2)]
          const found = match.slice(keep.length)
          const end = Number(at) + match.length
          const isFound =
            found !== '' && holds?.(found, keep, before.slice(end, end + 20)) !== false
          return isFound ? keep + this.#replaced(name, found) : match
        }),
      text,
    )
  }

  /** Plain data without keys and personal data in its texts and names. */
  data(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value)
    if (Array.isArray(value)) return value.map((part) => this.data(part))
    if (typeof value !== 'object' || value === null) return value
    const fields = Object.entries(value).map(([name, part]: [string, unknown]) => {
      const isSecret = typeof part === 'string' && isAssignedSecret(part, `${name}: "`, '')
      return [this.text(name), isSecret ? this.#replaced('secret', part) : this.data(part)]
    })
    return Object.fromEntries(fields) as unknown
  }

  #replaced(name: string, found: string): string {
    if (this.#allowed.some((allowed) => allowed.test(found))) return found
    this.replaced[name] = (this.replaced[name] ?? 0) + 1
    return `[${name}]`
  }
}

/** What is replaced by `[name]`. */
interface PrivacyRule {
  readonly name: string
  /** A group `keep` at the beginning of a match stays. Repetitions are bounded, so that time is linear. */
  readonly pattern: RegExp
  /** Whether a match, without `keep`, is what the rule means; `after` follows it. Default: always. */
  readonly holds?: (found: string, keep: string, after: string) => boolean
}

/** How keys of providers begin, and how long they are at least. */
const providerKeys = [
  // OpenAI, Anthropic, OpenRouter, DeepSeek, Stripe, Langfuse, ElevenLabs.
  String.raw`sk-[\w-]{16,300}`,
  String.raw`[sprw][kh](?:sec)?_(?:live_|test_)?\w{20,255}`,
  String.raw`pk-lf-[\w-]{16,64}`,
  // Groq, xAI, Perplexity, Replicate, Hugging Face, Fireworks, Tinker, Pinecone, LangSmith, W&B.
  String.raw`(?:gsk|xai|pplx|r8|hf|fw|tml|pcsk|lsv2_[a-z]{2}|wandb_v1)[_-]\w{20,255}`,
  // AWS, Google, Azure DevOps, Alibaba.
  String.raw`A(?:KIA|SIA|BIA|CCA)[A-Z0-9]{16}`,
  String.raw`AIza[\w-]{35}`,
  String.raw`ya29\.[\w-]{20,1000}`,
  String.raw`GOCSPX-[\w-]{20,64}`,
  String.raw`LTAI\w{12,24}`,
  // GitHub, GitLab, npm, PyPI, RubyGems, Docker, crates.io.
  String.raw`gh[pousr]_[A-Za-z0-9]{36,255}`,
  String.raw`github_pat_\w{22,255}`,
  String.raw`gl(?:pat|ptt|dt|rt|ft|cbt|agent|soat|oas)-[\w.-]{20,255}`,
  String.raw`npm_[A-Za-z0-9]{36}`,
  String.raw`pypi-[\w-]{50,500}`,
  String.raw`rubygems_[a-f0-9]{48}`,
  String.raw`dckr_(?:pat|oat)_[\w-]{20,64}`,
  // Slack, Discord, Telegram, Twilio, SendGrid, Mailgun, Mailchimp, Brevo, Resend.
  String.raw`xox[abceprs]-[A-Za-z0-9-]{10,255}`,
  String.raw`xapp-\d-[A-Za-z0-9-]{20,255}`,
  String.raw`[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}`,
  String.raw`\d{8,10}:AA[\w-]{33}`,
  String.raw`(?:AC|SK)[a-f0-9]{32}`,
  String.raw`SG\.[\w-]{16,32}\.[\w-]{16,64}`,
  String.raw`key-[a-f0-9]{32}`,
  String.raw`[a-f0-9]{32}-us\d{1,2}`,
  String.raw`xkeysib-[a-f0-9]{64}-\w{16}`,
  String.raw`re_[A-Za-z0-9]{8}_\w{20,64}`,
  // DigitalOcean, Shopify, Databricks, Linear, Notion, Figma, Postman, Airtable.
  String.raw`do[opr]_v1_[a-f0-9]{64}`,
  String.raw`shp(?:at|ca|pa|ss|ua)_[a-fA-F0-9]{32}`,
  String.raw`dapi[a-f0-9]{32}(?:-\d)?`,
  String.raw`lin_(?:api|oauth)_\w{32,64}`,
  String.raw`(?:ntn|secret)_[A-Za-z0-9]{40,50}`,
  String.raw`fig[dou]_[\w-]{30,64}`,
  String.raw`PMAK-[a-f0-9]{24}-[a-f0-9]{34}`,
  String.raw`pat[A-Za-z0-9]{14}\.[a-f0-9]{64}`,
  // Vault, Terraform, Doppler, Supabase, Vercel, Netlify, Heroku, Atlassian, New Relic, Grafana, Sentry, Square.
  String.raw`hv[sbr]\.[\w-]{24,300}`,
  String.raw`[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,80}`,
  String.raw`dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,80}`,
  String.raw`(?:sbp|sb_secret|nfp|vcp)_\w{20,64}`,
  String.raw`HRKU-[\w-]{36,64}`,
  String.raw`ATATT3[\w-]{20,300}(?:=[A-F0-9]{8})?`,
  String.raw`NR(?:AK|JS|II)-\w{20,64}`,
  String.raw`gl(?:sa|c)_[\w=-]{32,300}`,
  String.raw`sntry[su]_[\w=/+-]{40,500}`,
  String.raw`sq0[a-z]{3}-[\w-]{22,64}`,
  String.raw`pscale_(?:tkn|pw|oauth)_[\w.-]{32,64}`,
  String.raw`AGE-SECRET-KEY-1[0-9A-Z]{58}`,
  // A signed token (JWT).
  String.raw`eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{4,}`,
]

const quote = '\\\\{0,3}["\'`]'
const names =
  '(?:passw(?:or)?d|passphrase|passcode|pwd|secret|credentials?|token|key|cookie|authorization)'
const separator = '(?:=>|:=|[:=]|(?<=--[\\w-]{0,60})[ ])'
/** In quotes up to the closing one, else up to what ends a word; no call and no element of a list. */
const value = `(?:(?<=["'\`])[^\\n"'\`]{1,4000}?(?=\\\\{0,3}["'\`]|\\n|$)|(?<!["'\`])[^\\s"'\`,;&<>(){}[\\]\\\\|=][^\\s"'\`,;&<>(){}[\\]\\\\|]{0,4000}(?=[\\s"'\`,;&<>){}\\]\\\\|]|$))`

/** The lengths of IBANs, and the countries that have them. */
const ibans: Readonly<Record<number, string>> = {
  15: 'NO',
  16: 'BE',
  18: 'DK|FI|FO|GL|NL|SD',
  19: 'MK|SI',
  20: 'AT|BA|EE|KZ|LT|LU|MN|XK',
  21: 'CH|HR|LI|LV',
  22: 'BG|BH|CR|DE|GB|GE|IE|ME|RS|VA',
  23: 'AE|GI|IL|IQ|OM|SO|TL',
  24: 'AD|CZ|DZ|ES|MD|PK|RO|SA|SE|SK|TN|VG',
  25: 'AO|CV|GW|LY|MZ|PT|ST',
  26: 'IR|IS|TR',
  27: 'BF|BI|BJ|CF|CG|CI|CM|DJ|FR|GA|GQ|GR|IT|KM|MC|MG|ML|MR|NE|SM|SN|TD|TG',
  28: 'AL|AZ|BY|CY|DO|GT|HN|HU|LB|MA|NI|PL|SV',
  29: 'BR|EG|PS|QA|UA',
  30: 'JO|KW|MU|YE',
  31: 'MT|SC',
  32: 'LC',
  33: 'RU',
}
const iban = Object.entries(ibans)
  .map(([length, countries]) => `(?:${countries})\\d\\d(?:[ -]?[A-Z0-9]){${Number(length) - 4}}`)
  .join('|')

/** Folders below those of users that name no person. */
const shared =
  /^(?:[<{$%*~[].*|user(?:name)?|you(?:r-?name)?|me|name|root|admin|app|node|ubuntu|debian|runner(?:admin)?|ec2-user|vscode|jovyan|shared|public|default|linuxbrew)$/i

/** In order: a key may contain what looks like the number of a card, and names of keys stand before them. */
const privacyRules: readonly PrivacyRule[] = [
  {
    name: 'private key',
    pattern:
      /-----BEGIN [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]{0,32}PRIVATE KEY(?: BLOCK)?-----|$)/g,
  },
  {
    name: 'api key',
    pattern: new RegExp(String.raw`(?<![\w-])(?:${providerKeys.join('|')})(?![\w-])`, 'g'),
  },
  {
    name: 'token',
    pattern: /(?<=\b(?:bearer|basic)\s{1,4})[\w.~+/=-]{16,4000}/gi,
    holds: (found) => !isWord(found),
  },
  { name: 'credentials', pattern: /(?<=:\/\/)[^\s/:@]{0,128}:[^\s/@]{1,128}(?=@)/g },
  {
    name: 'secret',
    pattern: new RegExp(
      `(?<keep>\\b(?:set-)?cookie(?:${quote})?\\s{0,4}[:=]\\s{0,4}(?:${quote})?)(?!\\s)[^\\n"'\`=[]{1,200}=[^\\n"'\`]{1,4000}`,
      'gi',
    ),
  },
  {
    name: 'secret',
    pattern: new RegExp(
      `(?<keep>\\bauthorization(?:${quote})?\\s{0,4}[:=]\\s{0,4}(?:${quote})?(?:[a-z]{3,16}[ ]{1,4})?)[^\\s"'\`,[]{6,4000}`,
      'gi',
    ),
    holds: (found) => !isWord(found),
  },
  {
    name: 'secret',
    pattern: new RegExp(
      `(?<keep>(?<![\\w.-])[\\w.-]{0,40}?${names}[\\w-]{0,24}(?:${quote})?\\s{0,8}${separator}\\s{0,8}(?:${quote})?)${value}`,
      'gi',
    ),
    holds: isAssignedSecret,
  },
  {
    name: 'random text',
    pattern:
      /(?<![\w+/=-])(?<!base64,)(?:[\w-]{20,4000}|[A-Za-z0-9+/]{24,4000})={0,2}(?![\w+/=-])/g,
    holds: isRandom,
  },
  {
    name: 'email',
    pattern:
      /(?<![\p{L}\p{M}\p{N}_.%+-])[\p{L}\p{M}\p{N}_.%+'-]{1,64}@(?:[\p{L}\p{M}\p{N}-]{1,63}\.){1,8}(?:\p{L}[\p{L}\p{M}]{1,23}|xn--[a-z0-9-]{2,40})(?![\p{L}\p{M}\p{N}-])/gu,
    // Repositories, and pictures for screens of several densities.
    holds: (found) => !/^git@|@\dx\.\w+$/.test(found),
  },
  {
    name: 'ip address',
    pattern: /(?<![\w.]|\bv(?:ersion)?\.? )(?:\d{1,3}\.){3}\d{1,3}(?!\w|\.\d)/g,
    holds: (text) => isIPv4(text) && !/^(?:127|0)\./.test(text),
  },
  {
    name: 'ip address',
    pattern: /(?<![\w:])(?:[\da-f]{0,4}:){2,7}[\da-f]{0,4}(?![\w:])/gi,
    holds: (text) => text.length > 4 && isIPv6(text),
  },
  {
    name: 'iban',
    pattern: new RegExp(`(?<![A-Za-z0-9])(?:${iban})(?![A-Za-z0-9])`, 'gi'),
    holds: isIban,
  },
  { name: 'card', pattern: /(?<![\w.+-])\d(?:[ -]?\d){12,18}(?![\w-])/g, holds: isCardNumber },
  { name: 'phone', pattern: /(?<![\w.+])\+\d[\d ().-]{6,20}\d(?!\w)/g, holds: hasDigits(8, 15) },
  { name: 'phone', pattern: /(?<![\w.+-])(?:\(\d{3}\) ?|\d{3}[-. ])\d{3}[-. ]\d{4}(?![\w-])/g },
  {
    name: 'phone',
    pattern:
      /(?<![\w.+)-]|\d )(?:\(0?\d{1,5}\)|0\d{1,5})(?:[ ./-]{1,3}\d{2,8}){1,5}(?![\w-]|[ .]\d)/g,
    holds: (found) =>
      hasDigits(9, 13)(found) && !/^\d\d([./-])\d\d\1\d{4}\b|^\d{5}-\d{4}$/.test(found),
  },
  {
    name: 'phone',
    pattern:
      /(?<keep>\b(?:phone|telephone|telefon|t[eé]l|mobile|cell|handy|fax|whatsapp|call)(?: (?:number|me|is|at|on)){0,2}[.:]{0,2}\s{1,3})\(?\d[\d ()./-]{5,20}\d(?!\w)/gi,
    holds: hasDigits(7, 15),
  },
  {
    name: 'user',
    pattern:
      /(?<keep>(?<![\w.%-])(?:\/(?:mnt\/[a-z]|export|private|var|data))?\/(?:home|Users)\/)[^\s/\\:"'`<>|)]{1,64}/g,
    holds: (found) => !shared.test(found),
  },
  {
    name: 'user',
    pattern: /(?<keep>\b[A-Za-z]:[\\/]{1,4}Users[\\/]{1,4})[^\\/:*?"<>|\n]{1,64}(?=[\\/])/gi,
    holds: (found) => !shared.test(found),
  },
]

function hasDigits(least: number, most: number): (text: string) => boolean {
  return (text) => {
    const { length } = text.replaceAll(/\D/g, '')
    return length >= least && length <= most
  }
}

/** By the check digits. */
function isIban(text: string): boolean {
  const letters = text.replaceAll(/[ -]/g, '').toUpperCase()
  const digits = Array.from(letters.slice(4) + letters.slice(0, 4), (one) => parseInt(one, 36))
  return BigInt(digits.join('')) % 97n === 1n
}

/** By the check digit (Luhn). */
function isCardNumber(text: string): boolean {
  const digits = Array.from(text.replaceAll(/\D/g, ''), Number).toReversed()
  const sum = digits.reduce((all, digit, at) => {
    const doubled = at % 2 === 0 ? digit : digit * 2
    return all + (doubled > 9 ? doubled - 9 : doubled)
  }, 0)
  return sum % 10 === 0 && digits.some((digit) => digit !== 0)
}

/** Texts of types, of values that say nothing, and of prose, which stand where secrets do. */
const words =
  /^(?:str|string|int|integer|number|float|bool|boolean|bytes|char|varchar|text|any|object|dict|list|none|null|nil|undefined|void|true|false|yes|no|on|off|optional|required|default|unknown|missing|invalid|empty|here|self|this|value|name|type|the|an?|is|are|and|or|your|my|our|must|should|may|not)$/i
const placeholder = /^(?:[[<{$%*]|\.{2,}|x{3,}|your[ _-]|my[ _-]|process\.env|os\.)/i
const member = /^[A-Za-z_$][\w$]*(?:[?!]?\.[A-Za-z_$][\w$]*)+[?!]?$/

/** Whether a text is a word of a language. */
function isWord(text: string): boolean {
  return /^\p{Lu}?[\p{Ll}\p{Lo}'-]+[.,!?:]?$|^\p{Lu}+[.,!?:]?$/u.test(text)
}

const compound =
  /(?:api|access|auth|private|client|session|refresh|bearer|id|signing|encryption|master|service|account|shared|ssh|aws|azure|gcp|webhook|deploy|bot|license|subscription|storage)[_.-]?(?:key|token)\W*$/i
const weak = /(?:^|[\W_]|[a-z](?=[KTCA]))(?:key|token|cookie|authorization)\W*$/i

/**
 * Whether what is assigned to a name is a secret, and not code, a placeholder or prose.
 *
 * @param keep - the name, with all up to the value
 * @param after - what follows the value
 */
function isAssignedSecret(found: string, keep: string, after: string): boolean {
  if (words.test(found) || placeholder.test(found)) return false
  const isQuoted = /["'`]$/.test(keep)
  if (!isQuoted && member.test(found) && !/\d/.test(found)) return false
  const name = /^[^\s:=]*/.exec(keep)?.[0] ?? ''
  // As in files of variables: any word may be a value there.
  const isVariable = /^[A-Z][A-Z0-9_]*=["']?$/.test(keep)
  const isName = !isVariable && /^[\p{L}_$]+$/u.test(found)
  // A sentence continues: "Password: must have eight letters".
  const isSentence = !isQuoted && isWord(found) && /^[ ,;.]+\p{L}/u.test(after)
  if (/pwd/i.test(name)) return keep.includes('=') && !/^[/~.]/.test(found)
  if (/passw|passphrase|passcode/i.test(name)) return !isSentence
  const hasLettersAndDigits = found.length >= 6 && /\d/.test(found) && /\p{L}/u.test(found)
  if (/secret|credential/i.test(name))
    return hasLettersAndDigits || !isName || (isQuoted && !isWord(found))
  if (compound.test(name)) return found.length >= 4 && !isName
  if (!weak.test(name) || !hasLettersAndDigits) return false
  // `key: step_2` is the name of something.
  return !/key\W*$/i.test(name) || !/^[a-z]+(?:[_.-][a-z]+)*[_.-]?\d{1,4}$/i.test(found)
}

const hexadecimal = /^(?:[\da-f]+|[\dA-F]+|[\da-fA-F]{8}(?:-[\da-fA-F]{4}){3}-[\da-fA-F]{12})$/

/**
 * Whether a text was drawn at random, as keys are: its characters change their kind far more often than those of names,
 * paths and words do. Hashes, ids and other hexadecimal texts are not, because tasks are about them.
 */
function isRandom(text: string): boolean {
  const bare = text.replace(/=+$/, '')
  if (hexadecimal.test(bare) || /^sha\d+-/.test(bare)) return false
  const isPath = bare.includes('/') && !bare.includes('+') && bare.length < 38
  const parts = /[+/]/.test(bare) ? [bare] : bare.split(/[-_]/)
  return !isPath && parts.some((part) => !hexadecimal.test(part) && isMixed(part))
}

function isMixed(text: string): boolean {
  const kinds = Array.from(text, (one) =>
    /\d/.test(one) ? 0 : /[a-z]/.test(one) ? 1 : /[A-Z]/.test(one) ? 2 : 3,
  )
  const changes = kinds.filter((kind, at) => at > 0 && kind !== kinds[at - 1]).length
  const share = changes / (text.length - 1)
  const digits = kinds.filter((kind) => kind === 0).length / text.length
  if (digits > 0.6 || entropy(text) < 3) return false
  if (kinds.includes(1) && kinds.includes(2)) {
    const least = text.length < 16 ? 0.6 : text.length < 24 ? 0.45 : 0.4
    const isSpelled = lengthIn(text, /[A-Z]?[a-z]{3,}/g) > text.length * 0.45
    return text.length >= 12 && digits > 0 && share > least && !isSpelled
  }
  const isSpelled = lengthIn(text, /[A-Za-z]{5,}/g) > text.length * 0.45
  return text.length >= 20 && digits > 0.1 && share > 0.28 && !isSpelled
}

function lengthIn(text: string, part: RegExp): number {
  return [...text.matchAll(part)].reduce((sum, [found]) => sum + found.length, 0)
}

/** Bits for each character. */
function entropy(text: string): number {
  const counts = Map.groupBy(text, (one) => one)
  return [...counts.values()].reduce((sum, { length }) => {
    const share = length / text.length
    return sum - share * Math.log2(share)
  }, 0)
}
