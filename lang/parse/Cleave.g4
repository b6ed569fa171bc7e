// The grammar of Cleave source.
//
// Between lexer and parser stands a pass over the tokens (Tokens.cpp). It
// decides where statements end: the parser sees no line ends, only END. It also
// joins numbers with their units (UNIT), and closes what is left open, so that
// brackets always match here.
//
// Words other than connectives are contextual: see `word`. No rule recurses but
// through a bracket or a block, so depth is bounded by their nesting.
grammar Cleave;

tokens { END, UNIT }

// --- Files ---------------------------------------------------------------------

file: (END | useFile | decl)* EOF;

useFile: USE useTarget (',' useTarget)* END;
useTarget: STRING | dotted;

decl
  : modelDecl | fnDecl | optimizerDecl | strategyDecl | scheduleDecl
  | algorithmDecl | planDecl | runDecl | reducedDecl
  ;

modelDecl: MODEL word params? codeBlock END;
fnDecl: FN word params (USING words)? codeBlock END;
optimizerDecl: OPTIMIZER word params? codeBlock END;
strategyDecl: STRATEGY word params? (USING words)? planBlock END;
scheduleDecl
  : SCHEDULE word (params (DEALT | FOLDED)? codeBlock | FROM STRING) END;
algorithmDecl
  : ALGORITHM word FOR call WHEN condition (',' condition)* codeBlock END;
condition: ref ON axis | expr;
planDecl: PLAN name=word params? OF model=word planBlock END;
runDecl
  : RUN name=word OF model=word WITH call (',' call)* REPRODUCIBLE? runBlock END;
reducedDecl: REDUCED word '(' args? ')' END;

params: '(' (param (',' param)* ','?)? ')';
param: name=word (':' sort=word)? ('=' value)?;

// --- Models, functions, optimizers, schedules, algorithms -----------------------

codeBlock: '{' (END | codeStmt)* '}';

codeStmt
  : dimStmt | inputStmt | outputStmt | paramStmt | letStmt | varStmt
  | repeatStmt | regionStmt | codeIf | returnStmt | minimizeStmt | forStmt
  | stateStmt | updateStmt | actionStmt | assignStmt
  ;

dimStmt: DIM dimDef (',' dimDef)* END;
dimDef
  : name=word '=' (UP TO)? expr (LIKE other=word)?            # dimSize
  | word OF product                                           # dimProduct
  | word OF dimPart ('+' dimPart)*                            # dimSum
  ;
dimPart: word ':' product;
product: word ('*' word)*;

inputStmt: INPUT words ':' type (FROM call)? END;
outputStmt: OUTPUT words END;
paramStmt: PARAM words ':' type ('~' call)? END;
type: word ('[' (words ','?)? ']')?;
letStmt: LET words '=' exprs END;
varStmt: VAR words '=' exprs END;
assignStmt: words '=' exprs END;
repeatStmt: REPEAT word ('=' expr)? codeBlock END;
regionStmt: REGION word codeBlock END;
codeIf: IF expr codeBlock (ELSE IF expr codeBlock)* (ELSE codeBlock)? END;
returnStmt: RETURN exprs END;
minimizeStmt: MINIMIZE expr END;
forStmt: FOR words IN span codeBlock END;
stateStmt: STATE words '~' call END;
updateStmt: UPDATE expr END;
actionStmt: (FORWARD | BACKWARD | INPUT_GRAD | WEIGHT_GRAD) expr END;

// --- Plans and strategies --------------------------------------------------------

planBlock: '{' (END | planStmt)* '}';

planStmt
  : meshStmt | viewStmt | shardStmt | placeStmt | keepStmt | perStmt | microStmt
  | pipelineStmt | tuneStmt | useStmt | inStmt | planIf | planLet | expectStmt
  ;

meshStmt: MESH own=axes (ON (levels=axes | devices=expr))? END;
viewStmt: VIEW axes END;
axes: '[' axisDef (',' axisDef)* ','? ']';
axisDef: word (':' (FREE | axes | expr))?;

shardStmt
  : SHARD dims ALSO? ON axis (ELSE axis)* deal? EVEN? (FOR sel)? END;
dims: LARGEST | ref (',' ref)*;
axis: NONE | ref ('*' ref)*;
ref: word ('.' word)* '?'?;
deal: DEALT expr | FOLDED;

placeStmt: PLACE sel ON placeAt (',' placeAt)* END;
placeAt: word '[' span ']';
keepStmt: (SAVE | RECOMPUTE | OFFLOAD) sel settings? END;
perStmt: (GATHER | REDUCE) sel PER word END;
microStmt: MICRO word (OF | INTO) expr END;
pipelineStmt: PIPELINE step ON word (CHUNKS expr)? cuts? WITH call END;
cuts
  : COUNTING words
  | BY COST
  | AS piece (',' piece)*
  ;
piece: (expr OF)? '[' (item (',' item)* ','?)? ']';
item: NUMBER? (word | UNIT);
tuneStmt: LOSSY? TUNE comm settings END;
useStmt: USE call (FOR sel)? END;
inStmt: IN sel planBlock END;
planIf: IF expr planBlock (ELSE IF expr planBlock)* (ELSE planBlock)? END;
planLet: LET word '=' value END;

expectStmt: EXPECT claim END;
claim
  : word WITHIN word                                          # claimWithin
  | NO comm                                                   # claimNo
  | (BYTES OF)? comm compare sum (PER word)*                  # claimCount
  | expr                                                      # claimHolds
  ;
comm: kind (ON axis)? (FOR sel | clause*);
kind
  : COLLECTIVES | ALL_REDUCE | ALL_GATHER | REDUCE_SCATTER | ALL_TO_ALL
  | BROADCAST | SHIFT | HALO | SEND
  ;
settings: WITH setting (',' setting)*;
setting: word ':' expr;

// --- Selections --------------------------------------------------------------------

sel: group clause*;
clause: IN group | EXCEPT group | WHERE expr;
group: pick (',' pick)*;
pick: ALL | role | path | '(' sel ')';
role
  : PARAMS | WEIGHTS | GRADIENTS | OPTIMIZER | ACTIVATIONS | INPUTS | CACHES
  | FORWARD | BACKWARD | UPDATE
  ;
path: '/'? step ('/' step)*;
step: (word | '*' | '**') ('[' span ']')? '?'?;

// --- Runs ----------------------------------------------------------------------------

runBlock: '{' (END | runStmt)* '}';
runStmt
  : plansStmt | startStmt | varyStmt | whenStmt | snapshotStmt | entryStmt;
plansStmt: PLANS planEntry (',' planEntry)* END;
planEntry: word '=' call;
startStmt: START word END;
varyStmt: VARY word '=' call END;
whenStmt: WHEN test=expr (FOR during=expr)? '->' target=expr END;
snapshotStmt: SNAPSHOT EVERY expr END;
entryStmt: (EVAL | FORWARD) WITH setting (',' setting)* (EVERY expr)? END;

// --- Expressions -----------------------------------------------------------------------

exprs: expr (',' expr)*;
// What a parameter or an argument may be: selections may stand without
// parentheses where a clause tells that they are some.
value: span | pick clause+;
span
  : one=expr
  | first=expr? '..' limit=expr? (EVERY stride=expr)?
  | EVERY stride=expr
  ;
expr: conjunction (OR conjunction)*;
conjunction: negation (AND negation)*;
negation: NOT* comparison;
comparison: sum (compare sum)?;
compare: '==' | '!=' | '<' | '<=' | '>' | '>=';
sum: term (('+' | '-') term)*;
term: unary (('*' | '/' | '%') unary)*;
unary: '-'* power;
power: postfix ('**' exponent)*;
exponent: '-'* postfix;
postfix: primary suffix*;
suffix
  : '.' word                                                  # member
  | '(' args? ')' (AS word)?                                  # arguments
  | '[' span ']'                                              # index
  ;
args: arg (',' arg)* ','?;
arg: word ':' value | value (ON dotted)?;
primary
  : number
  | STRING
  | TRUE
  | FALSE
  | word
  | list
  | '(' span (',' span)* ','? ')'
  | '(' sel ')'
  ;
number: NUMBER (UNIT)?;
list: '[' (span (',' span)* ','?)? ']' | '[' loop+ ':' expr ']';
loop: FOR words IN span;

// `zeros`, `one_f_one_b`, `adamw(rate: 3e-4)`: parentheses may be left out.
call: dotted ('(' args? ')')?;
dotted: word ('.' word)*;
words: word (',' word)*;

// Everything that may be a name: only the connectives may not.
word
  : NAME | MODEL | FN | OPTIMIZER | STRATEGY | SCHEDULE | ALGORITHM | PLAN | RUN
  | REDUCED | DIM | INPUT | OUTPUT | PARAM | LET | VAR | REPEAT | REGION
  | RETURN | MINIMIZE | STATE | UPDATE | FROM | UP | TO | LIKE | FORWARD
  | BACKWARD | INPUT_GRAD | WEIGHT_GRAD | MESH | VIEW | SHARD | PLACE | SAVE
  | RECOMPUTE | OFFLOAD | GATHER | REDUCE | MICRO | PIPELINE | LOSSY | TUNE
  | EXPECT | FREE | NONE | LARGEST | DEALT | FOLDED | EVEN | CHUNKS | BY | COST
  | INTO | ALL | WHERE | WITHIN | NO | BYTES | USE | COLLECTIVES | ALL_REDUCE
  | ALL_GATHER | REDUCE_SCATTER | ALL_TO_ALL | BROADCAST | SHIFT | HALO | SEND
  | PARAMS | WEIGHTS | GRADIENTS | ACTIVATIONS | INPUTS | CACHES | PLANS | START
  | VARY | WHEN | SNAPSHOT | EVAL | REPRODUCIBLE
  ;

// --- Tokens ------------------------------------------------------------------------------

// Connectives: reserved.
OF: 'of'; ON: 'on'; FOR: 'for'; IN: 'in'; EXCEPT: 'except'; AS: 'as';
WITH: 'with'; USING: 'using'; ALSO: 'also'; ELSE: 'else'; IF: 'if'; PER: 'per';
EVERY: 'every'; COUNTING: 'counting'; AND: 'and'; OR: 'or'; NOT: 'not';
TRUE: 'true'; FALSE: 'false';

// Contextual words.
MODEL: 'model'; FN: 'fn'; OPTIMIZER: 'optimizer'; STRATEGY: 'strategy';
SCHEDULE: 'schedule'; ALGORITHM: 'algorithm'; PLAN: 'plan'; RUN: 'run';
REDUCED: 'reduced'; DIM: 'dim'; INPUT: 'input'; OUTPUT: 'output';
PARAM: 'param'; LET: 'let'; VAR: 'var'; REPEAT: 'repeat'; REGION: 'region';
RETURN: 'return'; MINIMIZE: 'minimize'; STATE: 'state'; UPDATE: 'update';
FROM: 'from'; UP: 'up'; TO: 'to'; LIKE: 'like'; FORWARD: 'forward';
BACKWARD: 'backward'; INPUT_GRAD: 'input_grad'; WEIGHT_GRAD: 'weight_grad';
MESH: 'mesh'; VIEW: 'view'; SHARD: 'shard'; PLACE: 'place'; SAVE: 'save';
RECOMPUTE: 'recompute'; OFFLOAD: 'offload'; GATHER: 'gather'; REDUCE: 'reduce';
MICRO: 'micro'; PIPELINE: 'pipeline'; LOSSY: 'lossy'; TUNE: 'tune';
EXPECT: 'expect'; FREE: 'free'; NONE: 'none'; LARGEST: 'largest';
DEALT: 'dealt'; FOLDED: 'folded'; EVEN: 'even'; CHUNKS: 'chunks'; BY: 'by';
COST: 'cost'; INTO: 'into'; ALL: 'all'; WHERE: 'where'; WITHIN: 'within';
NO: 'no'; BYTES: 'bytes'; USE: 'use'; COLLECTIVES: 'collectives';
ALL_REDUCE: 'all_reduce'; ALL_GATHER: 'all_gather';
REDUCE_SCATTER: 'reduce_scatter'; ALL_TO_ALL: 'all_to_all';
BROADCAST: 'broadcast'; SHIFT: 'shift'; HALO: 'halo'; SEND: 'send';
PARAMS: 'params'; WEIGHTS: 'weights'; GRADIENTS: 'gradients';
ACTIVATIONS: 'activations'; INPUTS: 'inputs'; CACHES: 'caches'; PLANS: 'plans';
START: 'start'; VARY: 'vary'; WHEN: 'when'; SNAPSHOT: 'snapshot'; EVAL: 'eval';
REPRODUCIBLE: 'reproducible';

LPAREN: '('; RPAREN: ')'; LBRACKET: '['; RBRACKET: ']'; LBRACE: '{';
RBRACE: '}'; COMMA: ','; COLON: ':'; DOTS: '..'; DOT: '.'; QUESTION: '?';
TILDE: '~'; ARROW: '->'; EQUAL: '=='; NOT_EQUAL: '!='; LESS_EQUAL: '<=';
GREATER_EQUAL: '>='; LESS: '<'; GREATER: '>'; ASSIGN: '='; PLUS: '+';
MINUS: '-'; POWER: '**'; STAR: '*'; SLASH: '/'; PERCENT: '%';

NUMBER: DIGITS ('.' DIGITS)? ([eE] [+-]? DIGITS)?;
fragment DIGITS: [0-9] ('_'? [0-9])*;
NAME: [A-Za-z_] [A-Za-z_0-9]*;
STRING: '"' (~["\\\r\n] | '\\' ~[\r\n])* '"';

SEMICOLON: ';';
NEWLINE: '\r'? '\n';
COMMENT: '//' ~[\r\n]* -> skip;
BLANK: [ \t\r]+ -> skip;

OPEN_STRING: '"' (~["\\\r\n] | '\\' ~[\r\n])* '\\'?;
BAD: .;
